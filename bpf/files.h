/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* File calls that failed for a reason that a sandbox can give. */
#ifndef PROBE_FILES_H
#define PROBE_FILES_H

#include "fold.h"
#include "calls.h"
#include "recent.h"

/* The resource limit that an errno speaks of. */
static __always_inline u64 limit_behind(struct task_struct *task, s64 ret)
{
	switch (ret) {
	case -EMFILE: return task_limit(task, RLIMIT_NOFILE);
	case -EFBIG: return task_limit(task, RLIMIT_FSIZE);
	case -ENOMEM: return task_limit(task, RLIMIT_AS);
	}
	return 0;
}

/* Whether it failed because of a file, in a way that is told. */
static __always_inline bool concerns_file(struct call *call, u64 args[6], s64 ret)
{
	bool named = call->path_arg != NO_ARG || (s32)call_arg(args, call->dirfd_arg) >= 0;

	return ret == -ENOENT || ret == -ENOTDIR || (named && among(settings.file_errnos, -ret));
}

static __always_inline void report_file(struct task_struct *task, struct call *call, u32 nr,
					u64 args[6], s64 ret, u32 serial)
{
	struct file_record *e;
	u32 thing;

	if (ret == -ENOENT || ret == -ENOTDIR) {
		if (call->path_arg != NO_ARG)
			keep_missing(call_arg(args, call->path_arg));
		return;
	}
	/* Where a folder may not be searched, it is most often stat(2) that finds out. */
	if (!call->reported && ret != -EACCES)
		return;
	if (call->path_arg != NO_ARG)
		thing = path_thing(call_arg(args, call->path_arg));
	else
		thing = call_arg(args, call->dirfd_arg) + 1;
	e = storm_reserve(sizeof(*e), RECORD_FILE, task, nr, -ret, thing);
	if (!e)
		return;
	e->head.serial = serial;
	e->error = -ret;
	e->syscall = nr;
	e->dirfd = call->dirfd_arg == NO_ARG ? AT_FDCWD : (s32)call_arg(args, call->dirfd_arg);
	e->user_ns_level = BPF_CORE_READ(task, cred, user_ns, level);
	__builtin_memcpy(e->args, args, sizeof(e->args));
	e->limit = limit_behind(task, ret);
	e->capabilities = task_capabilities(task);
	e->path[0] = 0;
	if (call->path_arg != NO_ARG)
		bpf_probe_read_user_str(e->path, sizeof(e->path),
					(void *)call_arg(args, call->path_arg));
	base_text(task, e->path, e->dirfd, e->cwd);
	/* What is full now may have room in a moment. */
	bpf_ringbuf_submit(e, wake(ret == -ENOSPC));
}

static __always_inline void report_call(struct call *call, struct task_struct *task, u32 nr,
					u64 args[6], s64 ret, u32 serial)
{
	bool privileged = call->sense == CALL_PRIVILEGED &&
			  (ret == -EPERM || ret == -EACCES || ret == -EAFNOSUPPORT ||
			   ret == -EADDRNOTAVAIL);
	struct call_record *e;

	if (!privileged && !among(settings.call_errnos, -ret))
		return;
	e = storm_reserve(sizeof(*e), RECORD_CALL, task, nr, -ret, 0);
	if (!e)
		return;
	e->head.serial = serial;
	__builtin_memcpy(e->args, args, sizeof(e->args));
	e->error = -ret;
	e->syscall = nr;
	e->limit = limit_behind(task, ret);
	e->usage = BPF_CORE_READ(task, mm, total_vm);
	e->capabilities = task_capabilities(task);
	e->user_ns_level = BPF_CORE_READ(task, cred, user_ns, level);
	e->pad = 0;
	e->path[0] = 0;
	if (call->path_arg != NO_ARG)
		bpf_probe_read_user_str(e->path, sizeof(e->path),
					(void *)call_arg(args, call->path_arg));
	bpf_ringbuf_submit(e, wake(false));
}

#endif
