/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a system call looks in the saved registers of each architecture. */
#ifndef PROBE_ARCH_H
#define PROBE_ARCH_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* What user space held when it entered the kernel. */
static __always_inline struct pt_regs *current_regs(void)
{
	return (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
}

#if defined(__TARGET_ARCH_x86)

/* Only for registers that the verifier knows as such: a plain load is five times cheaper. */
static __always_inline int regs_syscall(struct pt_regs *regs)
{
	return (int)regs->orig_ax;
}

/* The first three arguments, cheaply, under the same condition. */
static __always_inline u64 regs_arg(struct pt_regs *regs, int index)
{
	return index == 0 ? regs->di : index == 1 ? regs->si : regs->dx;
}

static __always_inline u64 regs_ip(struct pt_regs *regs)
{
	return regs->ip;
}

/* int80 and compat calls pass their arguments in other registers. */
static __always_inline bool task_in_compat_call(struct task_struct *task)
{
	return task->thread_info.status & TS_COMPAT;
}

static __always_inline void regs_args(struct pt_regs *regs, bool compat, u64 args[6])
{
	args[0] = regs->di;
	args[1] = regs->si;
	args[2] = regs->dx;
	args[3] = regs->r10;
	args[4] = regs->r8;
	args[5] = regs->r9;
	if (compat) {
		args[0] = (u32)regs->bx;
		args[1] = (u32)regs->cx;
		args[2] = (u32)regs->dx;
		args[3] = (u32)regs->si;
		args[4] = (u32)regs->di;
		args[5] = (u32)regs->bp;
	}
}

#elif defined(__TARGET_ARCH_arm64)

#define TIF_32BIT_BIT 22

/* Only for registers that the verifier knows as such: a plain load is five times cheaper. */
static __always_inline int regs_syscall(struct pt_regs *regs)
{
	return regs->syscallno;
}

static __always_inline u64 regs_arg(struct pt_regs *regs, int index)
{
	return index == 0   ? regs->orig_x0
	       : index == 1 ? regs->user_regs.regs[1]
			    : regs->user_regs.regs[2];
}

static __always_inline u64 regs_ip(struct pt_regs *regs)
{
	return regs->user_regs.pc;
}

static __always_inline bool task_in_compat_call(struct task_struct *task)
{
	return task->thread_info.flags & (1UL << TIF_32BIT_BIT);
}

/* x0 carries the return value by now; orig_x0 keeps the first argument. */
static __always_inline void regs_args(struct pt_regs *regs, bool compat, u64 args[6])
{
	args[0] = regs->orig_x0;
	args[1] = regs->user_regs.regs[1];
	args[2] = regs->user_regs.regs[2];
	args[3] = regs->user_regs.regs[3];
	args[4] = regs->user_regs.regs[4];
	args[5] = regs->user_regs.regs[5];
}

#endif
#endif
