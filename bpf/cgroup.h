/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which cgroup of a task's ancestry stands at its limit. */
#ifndef PROBE_CGROUP_H
#define PROBE_CGROUP_H

#include "task.h"

#define ANCESTORS 12
/* The kernel charges memory in batches of 64 pages for each CPU, so "full" is a little below. */
#define MEMORY_SLACK_PAGES 512

static __always_inline void cgroup_names(struct cgroup_subsys_state *css, struct cgroup_limit *out)
{
	struct kernfs_node *kn = BPF_CORE_READ(css, cgroup, kn);

	for (int i = 0; i < CGROUP_DEPTH; i++) {
		out->name[i][0] = 0;
		if (!kn)
			continue;
		bpf_probe_read_kernel_str(out->name[i], CGROUP_NAME_SIZE, BPF_CORE_READ(kn, name));
		if (bpf_core_field_exists(kn->parent))
			kn = BPF_CORE_READ(kn, parent);
		else
			kn = BPF_CORE_READ((struct kernfs_node___rcu *)kn, __parent);
	}
}

static __always_inline struct cgroup_subsys_state *task_css(struct task_struct *task, u32 subsys)
{
	struct cgroup_subsys_state *css = NULL;
	struct css_set *set = BPF_CORE_READ(task, cgroups);

	bpf_core_read(&css, sizeof(css),
		      (void *)set + bpf_core_field_offset(struct css_set, subsys) +
			      subsys * sizeof(css));
	return css;
}

/* After a refused fork the counters are back where they were: at the limit. */
static __always_inline void pids_limit(struct task_struct *task, struct cgroup_limit *out)
{
	struct cgroup_subsys_state *css;
	struct pids_cgroup *pids;
	s64 limit, count;

	out->limit = 0;
	out->usage = 0;
	css = task_css(task, bpf_core_enum_value(enum cgroup_subsys_id, pids_cgrp_id));
	for (int i = 0; i < ANCESTORS; i++) {
		if (!css)
			return;
		pids = (void *)css - bpf_core_field_offset(struct pids_cgroup, css);
		limit = BPF_CORE_READ(pids, limit.counter);
		count = BPF_CORE_READ(pids, counter.counter);
		if (count >= limit) {
			out->limit = limit;
			out->usage = count;
			cgroup_names(css, out);
			return;
		}
		css = BPF_CORE_READ(css, parent);
	}
}

static __always_inline void memory_limit(struct task_struct *task, struct cgroup_limit *out)
{
	struct cgroup_subsys_state *css;
	struct mem_cgroup *memory;
	u64 limit, usage;

	out->limit = 0;
	out->usage = 0;
	css = task_css(task, bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id));
	for (int i = 0; i < ANCESTORS; i++) {
		if (!css)
			return;
		memory = (void *)css - bpf_core_field_offset(struct mem_cgroup, css);
		limit = BPF_CORE_READ(memory, memory.max);
		usage = BPF_CORE_READ(memory, memory.usage.counter);
		if (usage + MEMORY_SLACK_PAGES >= limit) {
			out->limit = limit;
			out->usage = usage;
			cgroup_names(css, out);
			return;
		}
		css = BPF_CORE_READ(css, parent);
	}
}

#endif
