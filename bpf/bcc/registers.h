/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What user space held when it entered the kernel: struct pt_regs as ptrace(2) shows it. */
#ifndef PROBE_BCC_REGISTERS_H
#define PROBE_BCC_REGISTERS_H

#include "base.h"

#if defined(__x86_64__)

#define USER_CS_32 0x23 /* the code segment of 32-bit programs */

struct registers {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
};

static __always_inline s32 syscall_of(struct registers *regs)
{
	return (s32)regs->orig_ax;
}

static __always_inline u64 address_of(struct registers *regs)
{
	return regs->ip;
}

/* A 64-bit program's int80 passes for a call of its own table. */
static __always_inline bool is_compat(struct registers *regs)
{
	return regs->cs == USER_CS_32;
}

static __always_inline void arguments_of(struct registers *regs, u64 args[6])
{
	if (is_compat(regs)) {
		args[0] = (u32)regs->bx;
		args[1] = (u32)regs->cx;
		args[2] = (u32)regs->dx;
		args[3] = (u32)regs->si;
		args[4] = (u32)regs->di;
		args[5] = (u32)regs->bp;
		return;
	}
	args[0] = regs->di;
	args[1] = regs->si;
	args[2] = regs->dx;
	args[3] = regs->r10;
	args[4] = regs->r8;
	args[5] = regs->r9;
}

#elif defined(__aarch64__)

#define PSTATE_32 0x10 /* the mode bit of AArch32 */

struct registers {
	u64 x[31], sp, pc, pstate;
	u64 orig_x0;
	s32 syscall;
	u32 pad;
};

static __always_inline s32 syscall_of(struct registers *regs)
{
	return regs->syscall;
}

static __always_inline u64 address_of(struct registers *regs)
{
	return regs->pc;
}

static __always_inline bool is_compat(struct registers *regs)
{
	return regs->pstate & PSTATE_32;
}

/* x0 carries the return value by now; orig_x0 keeps the first argument. */
static __always_inline void arguments_of(struct registers *regs, u64 args[6])
{
	args[0] = regs->orig_x0;
	args[1] = regs->x[1];
	args[2] = regs->x[2];
	args[3] = regs->x[3];
	args[4] = regs->x[4];
	args[5] = regs->x[5];
}

#endif
#endif
