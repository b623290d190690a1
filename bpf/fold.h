/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Storms: of calls that fail alike in one process the first few leave in full,
 * then one now and then that carries the number of those in between. The sum is
 * exact; what remains at the end of a span is read from the map.
 */
#ifndef PROBE_FOLD_H
#define PROBE_FOLD_H

#include "task.h"

#define FOLD_FIRST 8
#define FOLD_INTERVAL_NS 100000000ULL

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, struct fold_key);
	__type(value, struct fold);
} folds SEC(".maps");

/*
 * 0: do not tell. Else tell, for one call and `result - 1` like it before.
 * A global function: verified once, not at each call.
 */
__noinline u32 fold(u32 kind, u32 syscall, s32 error)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = task_state(task);
	struct fold_key key = { .kind = kind, .syscall = syscall, .error = error };
	struct fold fresh = { .told_ns = bpf_ktime_get_boot_ns(), .told = 1 }, *known;
	u32 hidden;

	key.pid = task_tgid(task);
	if (!key.pid || key.pid == settings.self_tgid)
		return 0;
	key.span = state ? state->span : 0;
	known = bpf_map_lookup_elem(&folds, &key);
	if (!known) {
		/* A full map folds nothing; the ring's losses are counted then. */
		bpf_map_update_elem(&folds, &key, &fresh, BPF_NOEXIST);
		return 1;
	}
	if (known->told >= FOLD_FIRST && fresh.told_ns - known->told_ns < FOLD_INTERVAL_NS) {
		__sync_fetch_and_add(&known->hidden, 1);
		return 0;
	}
	__sync_fetch_and_add(&known->told, 1);
	known->told_ns = fresh.told_ns;
	hidden = known->hidden;
	__sync_fetch_and_add(&known->hidden, -hidden);
	return hidden + 1;
}

#endif
