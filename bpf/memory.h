/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The OOM killer's choice. */
#ifndef PROBE_MEMORY_H
#define PROBE_MEMORY_H

#include "cgroup.h"

static __always_inline void report_oom(struct task_struct *victim)
{
	struct oom_record *e = record_reserve(sizeof(*e), RECORD_OOM, victim);

	if (!e)
		return;
	e->total_vm_pages = BPF_CORE_READ(victim, mm, total_vm);
	e->trigger_pid = task_tgid(current_task());
	e->pad = 0;
	memory_limit(victim, &e->memory);
	bpf_ringbuf_submit(e, wake(true));
}

/*
 * Older kernels name the victim by its number alone. It shares the full cgroup
 * with the current task, whose allocation found no memory, so that one stands in.
 */
static __always_inline void report_oom_pid(u32 pid)
{
	struct task_struct *current = current_task();
	struct oom_record *e = record_reserve(sizeof(*e), RECORD_OOM, current);

	if (!e)
		return;
	e->trigger_pid = e->head.pid;
	e->head.pid = pid;
	e->head.tid = pid;
	if (pid != e->trigger_pid) {
		e->head.ppid = 0;
		e->head.comm[0] = 0; /* user space knows it by its program */
	}
	e->total_vm_pages = 0;
	e->pad = 0;
	memory_limit(current, &e->memory);
	bpf_ringbuf_submit(e, wake(true));
}

#endif
