/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The least that anything which looks at every system call can cost. */

char LICENSE[] __attribute__((section("license"), used)) = "Dual BSD/GPL";

__attribute__((section("raw_tp/sys_exit"), used)) int nothing(void *context)
{
	return 0;
}
