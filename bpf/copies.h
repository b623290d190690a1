/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Copies of stderr (dup(2)), by which test frameworks tell of failures: they make one at
 * their start, before the tests have it for themselves.
 */
#ifndef PROBE_COPIES_H
#define PROBE_COPIES_H

#include "call.h"
#include "path.h"
#include "words.h"

#define F_DUPFD 0
#define F_DUPFD_CLOEXEC 1030

/* By thread group, in the initial pid namespace: the one that it made last, of 2 or of a copy. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u32);
} copies SEC(".maps");

u32 copies_made; /* 0: nobody looks any further at what is written to other files */

static __always_inline void note_copy(u64 fd, u64 command, u32 change, u32 copy)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32, *before;

	if (copy <= STDERR)
		return;
	before = fd == STDERR ? NULL : bpf_map_lookup_elem(&copies, &tgid);
	if (fd != STDERR && (!before || *before != fd))
		return;
	if (change == CHANGE_COPIES_BY && command != F_DUPFD && command != F_DUPFD_CLOEXEC)
		return;
	bpf_map_update_elem(&copies, &tgid, &copy, BPF_ANY);
	copies_made = 1;
}

/* A number may have become another file's since. */
static __noinline bool is_copy(u64 fd)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32, *copy;

	if (!copies_made)
		return false;
	copy = bpf_map_lookup_elem(&copies, &tgid);
	return copy && *copy == fd && is_same_file(current_task(), fd, STDERR);
}

#endif
