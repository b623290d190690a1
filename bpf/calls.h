/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the loader says of each call number, and what the current call is about. */
#ifndef PROBE_CALLS_H
#define PROBE_CALLS_H

#include "call.h"
#include "task.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * SYSCALLS); /* the 32-bit table comes second */
	__type(key, u32);
	__type(value, struct call);
} calls SEC(".maps");

static __always_inline struct call *call_of(u32 number)
{
	u32 slot = number & ~COMPAT_CALL;

	/* A number beyond the table is unknown to the kernel as well: ENOSYS. */
	if (slot >= SYSCALLS)
		slot = SYSCALLS - 1;
	if (number & COMPAT_CALL)
		slot += SYSCALLS;
	return bpf_map_lookup_elem(&calls, &slot);
}

/* The current call's number, with the mark of its table. */
static __always_inline u32 call_number(struct task_struct *task, u32 nr)
{
	return task_in_compat_call(task) ? nr | COMPAT_CALL : nr;
}

/* What the current call is about: its arguments, and its number if that is another. */
static __always_inline u32 read_call(u32 number, u64 args[6])
{
	u32 words[6] = {}, direct;

	regs_args(current_regs(), number & COMPAT_CALL, args);
	if (number != (settings.socketcall_nr | COMPAT_CALL))
		return number;
	direct = direct_socket_call(args[0]);
	bpf_probe_read_user(words, sizeof(words), (void *)args[1]);
	if (direct == 369 && args[0] == 9)
		words[4] = 0; /* send(2) has no address */
	for (int i = 0; i < 6; i++)
		args[i] = words[i];
	return direct | COMPAT_CALL;
}

#endif
