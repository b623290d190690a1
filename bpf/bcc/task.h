/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What user space and the programs share of a thread; mirrored in probe/engine/bcc. */
#ifndef PROBE_BCC_TASK_H
#define PROBE_BCC_TASK_H

#include "base.h"
#include "events.h"

struct task {
	u64 span;
	u64 started_ns; /* CLOCK_BOOTTIME */
	u64 connecting_ns; /* since when connect(2) has been in progress, or was */
	u64 calls;      /* since the denial */
	u64 args[6];    /* of the call that a filter answered with SIGSYS */
	u64 ip;         /* likewise */
	struct follow_up next[FOLLOW_UPS];
	u32 tgid;
	u32 creator;  /* the process that forked this one */
	u32 serial;   /* of the denial that is being followed; 0: none */
	u32 followed; /* how many of `next` are filled */
	u32 entered;  /* number of the call in progress, plus one */
	u32 enters;   /* how many were seen: with none, nothing is known of the first */
	u32 refused;  /* number of the call that a filter answered with SIGSYS, plus one */
	u32 executed; /* 1: it runs another program than its creator */
	u32 together; /* 1: stdout is a copy of stderr, or stderr of stdout */
	u32 together_first; /* the same at the beginning of the span */
	u32 silenced; /* 1: stderr goes to /dev/null */
	u32 null_fd;  /* where /dev/null was opened last, plus one */
	u32 strict;   /* 1: seccomp's strict mode */
	u32 filtered; /* 1: seccomp filters are in force, or may be */
	u32 leaving;  /* 1: it has called exit(2), or a signal ends it */
	u32 copy;     /* of stderr, made last, plus one */
};

/* A socket, by thread group and descriptor. */
struct socket {
	struct record head; /* who began the connection that is under way */
	u64 started_ns;     /* when; 0: none is */
	u16 type;
	u16 family; /* of the peer */
	u16 port;
	u16 pad;
	u8 address[16];
};

#endif
