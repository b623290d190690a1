/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a header needs that reads user memory alone: such ones serve the CO-RE programs and
 * those that bcc compiles on a kernel without BTF (bcc/), where libbcc brings the helpers.
 */
#ifndef PROBE_BASE_H
#define PROBE_BASE_H

#ifdef BCC
#include <linux/types.h>
#define __always_inline inline __attribute__((always_inline))
#define barrier_var(var) asm volatile("" : "+r"(var))
#else
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#endif

#include "numbers.h"

/*
 * Calls `step(i, context)`, i from 0 on, `count` times or until it returns other than 0. By
 * bpf_loop (5.17, commit e6f2dd0f8067) a step is verified once, and not as often as it may
 * be taken, which is most of what loading takes.
 */
#if defined(BCC) || defined(LEGACY)
#define STEP static __always_inline long
#define repeat(count, step, context)                                                               \
	for (u32 i_ = 0; i_ < (count); i_++)                                                       \
		if (step(i_, context))                                                             \
			break
#else
#define STEP static long
#define repeat(count, step, context) bpf_loop(count, step, context, 0)
#endif

#endif
