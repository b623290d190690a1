/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Signals that end a process: who sent them to whom. */
#ifndef PROBE_SIGNALS_H
#define PROBE_SIGNALS_H

#include "path.h"
#include "seccomp.h"

#define SEND_SIG_PRIV 1 /* from the kernel */

/* SEND_SIG_NOINFO and SEND_SIG_PRIV are small numbers in the place of a pointer. */
static __always_inline bool has_siginfo(struct kernel_siginfo *info)
{
	return (u64)info > 1;
}

struct fault {
	u64 address;
	u64 offset;
	u64 file;
};

/* Called with the mapping at the address, under the lock of the address space. */
static long note_mapping(struct task_struct *task, struct vm_area_struct *area, void *context)
{
	struct fault *fault = context;

	/* As a number: path_build takes no pointer. */
	fault->file = (u64)BPF_CORE_READ(area, vm_file);
	fault->offset = fault->address - area->vm_start + (area->vm_pgoff << PAGE_SHIFT);
	return 0;
}

/* bpf_find_vma came with 5.17, so who calls this is one of two programs of a hook. */
static __always_inline void find_mapping(struct signal_record *e)
{
	struct fault fault = { .address = e->address };
	struct file *file;

	bpf_find_vma(current_task(), fault.address, note_mapping, &fault, 0);
	file = (struct file *)fault.file;
	if (!file)
		return;
	file_text(file, e->mapping);
	e->offset = fault.offset;
	e->file_size = BPF_CORE_READ(file, f_inode, i_size);
}

static __always_inline u64 limit_of_signal(struct task_struct *target, int signal)
{
	switch (signal) {
	case SIGXFSZ: return task_limit(target, RLIMIT_FSIZE);
	case SIGXCPU:
	case SIGKILL: return task_limit(target, RLIMIT_CPU);
	}
	return 0;
}

static __always_inline void report_signal(int signal, struct kernel_siginfo *info,
					  struct task_struct *target, bool with_mapping)
{
	struct task_struct *sender = current_task();
	struct signal_record *e;
	/*
	 * Without any information come, in kernels of the 7 series, the signals of kill(2), and
	 * in all of them the one of a write beyond RLIMIT_FSIZE (send_sig without `priv`).
	 */
	u32 pid, from_kernel = (u64)info == SEND_SIG_PRIV || signal == SIGXFSZ;
	u64 span = span_of(target);
	s32 code = 0;

	if (!span)
		return;
	pid = task_tgid(target);
	if (!pid)
		return;
	if (has_siginfo(info)) {
		code = BPF_CORE_READ(info, si_code);
		/* A timer's signal bears the number of whoever ran just then (sigaction(2)). */
		from_kernel = code > 0 || (code <= SI_TIMER && code >= SI_SIGIO);
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
	e->limit = limit_of_signal(target, signal);
	e->address = 0;
	e->offset = 0;
	e->file_size = 0;
	e->mapping[0] = 0;
	BPF_CORE_READ_STR_INTO(&e->target_comm, target, comm);
	if (from_kernel && has_siginfo(info) && CRASHES & (1U << signal))
		e->address = (u64)BPF_CORE_READ(info, _sifields._sigfault._addr);
	/*
	 * bpf_find_vma can answer one program on a CPU at a time (it lets go of the address space
	 * by an irq_work): where several probes watch, the one whose span it is asks.
	 */
	if (with_mapping && signal == SIGBUS && code == BUS_ADRERR && span != NOBODYS_SPAN)
		find_mapping(e);
	/* What is full behind a SIGBUS may be empty again in a moment. */
	bpf_ringbuf_submit(e, wake(signal == SIGBUS));
}

static __always_inline int on_signal(int signal, struct kernel_siginfo *info,
				     struct task_struct *task, bool with_mapping)
{
	if (signal < 1 || signal > 31)
		return 0;
	if (signal == SIGSYS && has_siginfo(info) && BPF_CORE_READ(info, si_code) == SYS_SECCOMP)
		seccomp_signal(task, info);
	else if (ENDING_SIGNALS & (1U << signal) ||
		 (CRASHES & (1U << signal) && !is_handled(task, signal)))
		report_signal(signal, info, task, with_mapping);
	return 0;
}

#endif
