/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is known of a call by its number (probe/engine/calls.py). */
#ifndef PROBE_CALL_H
#define PROBE_CALL_H

#include "base.h"

enum call_sense {
	CALL_OTHER,
	CALL_CONNECT,
	CALL_BIND,
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
	TRANSFER_SEND_VECTOR,  /* (fd, pieces, count) */
	TRANSFER_RECEIVE,
	TRANSFER_RECEIVE_MESSAGE,
};

/* What a success means for the file that the call names, or the descriptor. */
enum call_change {
	CHANGE_NONE,
	CHANGE_OPENS, /* makes it, if the flags behind the path say so */
	CHANGE_MAKES,
	CHANGE_REMOVES,
	CHANGE_RENAMES,    /* (from, to) */
	CHANGE_RENAMES_AT, /* (directory, from, directory, to) */
	CHANGE_COPIES,     /* (descriptor) */
	CHANGE_COPIES_BY,  /* (descriptor, command) */
};

#define NO_ARG 0xff
#define AT_FDCWD -100

struct call {
	u8 sense;
	u8 path_arg;
	u8 dirfd_arg; /* of the path, or of the file itself where there is no path */
	u8 reported;  /* 0: only what was not found is kept, and EACCES told */
	u8 transfer;
	u8 change; /* enum call_change */
	u8 pad[2];
};

/* socketcall(2): the 32-bit C library makes its socket calls through that one. */
static __always_inline u32 direct_socket_call(u32 which)
{
	switch (which) {
	case 1: return 359;  /* socket */
	case 2: return 361;  /* bind */
	case 3: return 362;  /* connect */
	case 8: return 360;  /* socketpair */
	case 9:
	case 11: return 369; /* sendto */
	case 10:
	case 12: return 371; /* recvfrom */
	case 14: return 366; /* setsockopt */
	case 16: return 370; /* sendmsg */
	case 17: return 372; /* recvmsg */
	case 20: return 345; /* sendmmsg */
	}
	return 102;
}

static __always_inline bool among(const volatile u64 errnos[3], u64 error)
{
	barrier_var(error); /* else the verifier sees the bound of another copy */
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
