/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a system call looks in the saved registers of each architecture. */
#ifndef PROBE_ARCH_H
#define PROBE_ARCH_H

#include "drift.h"

#if defined(__TARGET_ARCH_x86)

/* Only for registers that the verifier knows as such: a plain load is five times cheaper. */
static __always_inline int regs_syscall(struct pt_regs *regs)
{
	return (int)field(regs, orig_ax);
}

/* The first three arguments, cheaply, under the same condition. */
static __always_inline u64 regs_arg(struct pt_regs *regs, int index)
{
	return index == 0 ? field(regs, di) : index == 1 ? field(regs, si) : field(regs, dx);
}

/* What syscall_rollback() makes a call's result, so that it can be made again. */
static __always_inline u64 regs_rollback(struct pt_regs *regs)
{
	return field(regs, orig_ax);
}

static __always_inline u64 regs_ip(struct pt_regs *regs)
{
	return field(regs, ip);
}

/* int80 and compat calls pass their arguments in other registers. */
static __always_inline bool task_in_compat_call(struct task_struct *task)
{
	return field(task, thread_info.status) & TS_COMPAT;
}

static __always_inline void regs_args(struct pt_regs *regs, bool compat, u64 args[6])
{
	args[0] = field(regs, di);
	args[1] = field(regs, si);
	args[2] = field(regs, dx);
	args[3] = field(regs, r10);
	args[4] = field(regs, r8);
	args[5] = field(regs, r9);
	if (compat) {
		args[0] = (u32)field(regs, bx);
		args[1] = (u32)field(regs, cx);
		args[2] = (u32)field(regs, dx);
		args[3] = (u32)field(regs, si);
		args[4] = (u32)field(regs, di);
		args[5] = (u32)field(regs, bp);
	}
}

#elif defined(__TARGET_ARCH_arm64)

#define TIF_32BIT_BIT 22

/* Only for registers that the verifier knows as such: a plain load is five times cheaper. */
static __always_inline int regs_syscall(struct pt_regs *regs)
{
	return field(regs, syscallno);
}

static __always_inline u64 regs_arg(struct pt_regs *regs, int index)
{
	return index == 0   ? field(regs, orig_x0)
	       : index == 1 ? field(regs, user_regs.regs[1])
			    : field(regs, user_regs.regs[2]);
}

/* syscall_rollback() puts the first argument back; -100 is AT_FDCWD as well as -ENETDOWN. */
static __always_inline u64 regs_rollback(struct pt_regs *regs)
{
	return field(regs, orig_x0);
}

static __always_inline u64 regs_ip(struct pt_regs *regs)
{
	return field(regs, user_regs.pc);
}

static __always_inline bool task_in_compat_call(struct task_struct *task)
{
	return field(task, thread_info.flags) & (1UL << TIF_32BIT_BIT);
}

/* x0 carries the return value by now; orig_x0 keeps the first argument. */
static __always_inline void regs_args(struct pt_regs *regs, bool compat, u64 args[6])
{
	args[0] = field(regs, orig_x0);
	args[1] = field(regs, user_regs.regs[1]);
	args[2] = field(regs, user_regs.regs[2]);
	args[3] = field(regs, user_regs.regs[3]);
	args[4] = field(regs, user_regs.regs[4]);
	args[5] = field(regs, user_regs.regs[5]);
}

#endif
#endif
