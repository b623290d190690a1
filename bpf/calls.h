/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the loader says of each call number (probe/engine/calls.py). */
#ifndef PROBE_CALLS_H
#define PROBE_CALLS_H

#include "task.h"

enum call_sense {
	CALL_OTHER,
	CALL_CONNECT,
	CALL_EXEC,
	CALL_EXECAT,
	CALL_FORK,
	CALL_FILE,
	CALL_PRIVILEGED, /* EPERM and EACCES of it are told too */
};

enum call_transfer {
	TRANSFER_NONE,
	TRANSFER_SEND,         /* (fd, data, size) */
	TRANSFER_SEND_TO,      /* the same with an address */
	TRANSFER_SEND_MESSAGE, /* (fd, header) */
	TRANSFER_SEND_BATCH,   /* (fd, headers, count) */
	TRANSFER_RECEIVE,
	TRANSFER_RECEIVE_MESSAGE,
};

#define NO_ARG 0xff

struct call {
	u8 sense;
	u8 path_arg;
	u8 dirfd_arg; /* of the path, or of the file itself where there is no path */
	u8 reported;  /* 0: only what was not found is kept */
	u8 transfer;
	u8 pad[3];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SYSCALLS);
	__type(key, u32);
	__type(value, struct call);
} calls SEC(".maps");

static __always_inline bool among(const volatile u64 errnos[3], u32 error)
{
	return error < 192 && errnos[error / 64] & (1ULL << (error % 64));
}

static __always_inline u64 call_arg(u64 args[6], u8 index)
{
	switch (index) {
	case 0: return args[0];
	case 1: return args[1];
	case 2: return args[2];
	case 3: return args[3];
	case 4: return args[4];
	}
	return 0;
}

#endif
