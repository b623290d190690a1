/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Bounds that the verifier sees. */
#ifndef PROBE_BOUNDS_H
#define PROBE_BOUNDS_H

/*
 * Makes a u64 at most `limit`, a constant, in the very register that is used next. Kernels
 * before 6.x forget a bound once the compiler compares one copy and uses another, or spills it.
 */
#define at_most(value, limit)                                                                      \
	asm volatile("if %[v] <= %[l] goto +1\n\t%[v] = %[l]" : [v] "+r"(value) : [l] "i"(limit))

#endif
