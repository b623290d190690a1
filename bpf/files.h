/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* File calls that failed for a reason that a sandbox can give. */
#ifndef PROBE_FILES_H
#define PROBE_FILES_H

#include "fold.h"
#include "recent.h"

enum call_sense {
	CALL_IGNORED,
	CALL_CONNECT,
	CALL_EXEC,
	CALL_EXECAT,
	CALL_FORK,
	CALL_FILE,
};

#define NO_ARG 0xff

/* What the loader says of each call number: who listens, and where its arguments are. */
struct call {
	u8 sense;
	u8 path_arg;
	u8 dirfd_arg; /* of the path, or of the file itself where there is no path */
	u8 reported;  /* 0: only what was not found is kept */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SYSCALLS);
	__type(key, u32);
	__type(value, struct call);
} calls SEC(".maps");

static __always_inline bool reported_errno(u32 error)
{
	return error < 192 && settings.file_errnos[error / 64] & (1ULL << (error % 64));
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

static __always_inline void report_file(struct task_struct *task, struct call *call, u32 nr,
					u64 args[6], s64 ret, u32 serial)
{
	struct file_record *e;
	struct file *file;
	u32 count, thing;

	if (ret == -ENOENT || ret == -ENOTDIR) {
		if (call->path_arg != NO_ARG)
			keep_missing(call_arg(args, call->path_arg), nr);
		return;
	}
	if (!call->reported || !reported_errno(-ret))
		return;
	if (call->path_arg != NO_ARG)
		thing = thing_of_path(call_arg(args, call->path_arg));
	else
		thing = call_arg(args, call->dirfd_arg) + 1;
	count = fold(RECORD_FILE, nr, -ret, thing);
	if (!count)
		return;
	e = record_reserve(sizeof(*e), RECORD_FILE, task);
	if (!e)
		return;
	e->head.count = count;
	e->head.serial = serial;
	e->error = -ret;
	e->syscall = nr;
	e->dirfd = call->dirfd_arg == NO_ARG ? -100 : (s32)call_arg(args, call->dirfd_arg);
	e->pad = 0;
	e->cwd[0] = 0;
	e->path[0] = 0;
	if (call->path_arg != NO_ARG)
		bpf_probe_read_user_str(e->path, sizeof(e->path),
					(void *)call_arg(args, call->path_arg));
	if (e->path[0] != '/') {
		file = file_of(task, e->dirfd);
		if (file)
			file_text(file, e->cwd);
		else
			cwd_text(task, e->cwd);
	}
	bpf_ringbuf_submit(e, 0);
}

#endif
