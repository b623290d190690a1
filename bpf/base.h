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

#endif
