/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Storms: of calls that fail alike in one process the first few leave in full,
 * then one now and then that carries the number of those in between. The sum is
 * exact; what remains at the end of a span is read from the map.
 */
#ifndef PROBE_FOLD_H
#define PROBE_FOLD_H

#include "strings.h"
#include "task.h"

#define FOLD_FIRST 8
#define FOLD_INTERVAL_NS 100000000ULL
#define FOLD_FIRST_THINGS 256
#define FOLD_INTERVAL_THINGS_NS 20000000ULL
#define EVERYTHING ((u32)-1)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, struct fold_key);
	__type(value, struct fold);
} folds SEC(".maps");

/* The thing of a path, verified once for all who ask. */
__noinline u32 path_thing(u64 path)
{
	return thing_of_path(path);
}

/* One more of its kind: 0 where it is only counted, else for how many it stands. */
static __always_inline u32 count_one(struct fold_key *key, u32 first, u64 interval_ns, u32 stands_for)
{
	struct fold fresh = { .told_ns = bpf_ktime_get_boot_ns(), .told = 1 }, *known;
	u32 hidden;

	known = bpf_map_lookup_elem(&folds, key);
	if (!known) {
		/* A full map folds nothing; the ring's losses are counted then. */
		bpf_map_update_elem(&folds, key, &fresh, BPF_NOEXIST);
		return stands_for;
	}
	if (known->told >= first && fresh.told_ns - known->told_ns < interval_ns) {
		__sync_fetch_and_add(&known->hidden, stands_for);
		return 0;
	}
	__sync_fetch_and_add(&known->told, 1);
	known->told_ns = fresh.told_ns;
	hidden = known->hidden;
	__sync_fetch_and_add(&known->hidden, -hidden);
	return hidden + stands_for;
}

/*
 * 0: do not tell. Else tell, for one call and `result - 1` like it before. First
 * of the same thing, then of all things: a walk over a read-only tree is a storm too.
 * A global function: verified once, not at each call.
 */
__noinline u32 fold(u32 kind, u32 syscall, s32 error, u32 thing)
{
	struct task_struct *task = current_task();
	struct fold_key key = { .kind = kind, .syscall = syscall, .error = error };
	u32 count = 1;

	key.span = span_of(task);
	if (!key.span)
		return 0;
	key.pid = task_tgid(task);
	if (!key.pid || key.pid == settings.self_tgid)
		return 0;
	key.thing = thing;
	if (thing != EVERYTHING) {
		count = count_one(&key, FOLD_FIRST, FOLD_INTERVAL_NS, 1);
		if (!count || !thing)
			return count;
	}
	key.thing = EVERYTHING;
	return count_one(&key, FOLD_FIRST_THINGS, FOLD_INTERVAL_THINGS_NS, count);
}

/* A place for one of a storm, as record_reserve; NULL also where it is only counted. */
static __always_inline void *storm_reserve(u64 size, u32 kind, struct task_struct *task,
					   u32 syscall, s32 error, u32 thing)
{
	u32 count = fold(kind, syscall, error, thing);
	struct record *place;

	if (!count)
		return NULL;
	place = record_reserve(size, kind, task);
	if (place)
		place->count = count;
	return place;
}

#endif
