/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two objects are built from these sources, and the loader takes the first that the running
 * kernel accepts: the one below the #else, and, with LEGACY, one for kernels before 5.17. Those
 * have no bpf_loop (base.h). Before 5.15 they have no storage with a task (4cf1bc1f1045), name
 * the current one by its address alone (3ca1032ab7ab), do not say where its registers are
 * (dd6e10fbd9fb), and have no atomics that tell the old value (5ca419f2864a).
 */
#ifndef PROBE_DRIFT_H
#define PROBE_DRIFT_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#ifdef LEGACY

#define KERNEL_STACK_SIZE 16384 /* four pages of x86-64, and of arm64 with small ones */

/* A load from what the verifier knows; here it may know nothing. */
#define field(pointer, name) BPF_CORE_READ(pointer, name)

static __always_inline struct task_struct *current_task(void)
{
	return (struct task_struct *)bpf_get_current_task();
}

/* What user space held when it entered the kernel. */
static __always_inline struct pt_regs *current_regs(void)
{
	void *stack = BPF_CORE_READ(current_task(), stack);

	return stack + KERNEL_STACK_SIZE - bpf_core_type_size(struct pt_regs);
}

/* Different from all others of a while. */
static __always_inline u32 next_serial(u32 *last)
{
	return (bpf_get_prandom_u32() & 0x7fffffff) | 1;
}

#else

#define field(pointer, name) ((pointer)->name)

static __always_inline struct task_struct *current_task(void)
{
	return bpf_get_current_task_btf();
}

static __always_inline struct pt_regs *current_regs(void)
{
	return (struct pt_regs *)bpf_task_pt_regs(current_task());
}

static __always_inline u32 next_serial(u32 *last)
{
	return __sync_fetch_and_add(last, 1) + 1;
}

#endif

#pragma GCC poison bpf_get_current_task_btf bpf_task_pt_regs

#endif
