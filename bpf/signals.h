/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Signals that end a process: who sent them to whom. */
#ifndef PROBE_SIGNALS_H
#define PROBE_SIGNALS_H

#include "seccomp.h"

#define SIGHUP 1
#define SIGINT 2
#define SIGQUIT 3
#define SIGALRM 14
#define SIGTERM 15
#define SIGXCPU 24
#define SIGXFSZ 25

#define ENDING_SIGNALS                                                                             \
	(1U << SIGHUP | 1U << SIGINT | 1U << SIGQUIT | 1U << SIGKILL | 1U << SIGALRM |             \
	 1U << SIGTERM | 1U << SIGXCPU | 1U << SIGXFSZ)

/* SEND_SIG_NOINFO and SEND_SIG_PRIV are small numbers in the place of a pointer. */
static __always_inline bool has_siginfo(struct kernel_siginfo *info)
{
	return (u64)info > 1;
}

static __always_inline void report_signal(int signal, struct kernel_siginfo *info,
					  struct task_struct *target)
{
	struct task_struct *sender = bpf_get_current_task_btf();
	struct signal_record *e;
	u32 pid, from_kernel = (u64)info == 1;
	u64 span = span_of(target);
	s32 code = 0;

	if (!span)
		return;
	pid = task_tgid(target);
	if (!pid)
		return;
	if (has_siginfo(info)) {
		code = BPF_CORE_READ(info, si_code);
		from_kernel = code > 0;
	}
	e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		count_loss(span, RECORD_SIGNAL);
		return;
	}
	__builtin_memset(&e->head, 0, sizeof(e->head));
	/* The sender may be part of no span, or out of scope: then its number is 0. */
	if (!identify(&e->head, RECORD_SIGNAL, sender)) {
		e->head.pid = task_tgid(sender);
		e->head.tid = task_tid(sender);
		BPF_CORE_READ_STR_INTO(&e->head.comm, sender, comm);
	}
	e->head.kind = RECORD_SIGNAL;
	e->head.count = 1;
	e->head.time_ns = bpf_ktime_get_boot_ns();
	e->target_pid = pid;
	e->signal = signal;
	e->code = code;
	e->from_kernel = from_kernel;
	e->target_span = span;
	BPF_CORE_READ_STR_INTO(&e->target_comm, target, comm);
	bpf_ringbuf_submit(e, wake(false));
}

static __always_inline int on_signal(int signal, struct kernel_siginfo *info,
				     struct task_struct *task)
{
	if (signal > 31)
		return 0;
	if (signal == SIGSYS && has_siginfo(info) && BPF_CORE_READ(info, si_code) == SYS_SECCOMP)
		seccomp_signal(task, info);
	else if (ENDING_SIGNALS & (1U << signal))
		report_signal(signal, info, task);
	return 0;
}

#endif
