/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a process looked for in vain and said on stderr last.
 *
 * Programs probe for files all the time, and most of what they print is of no
 * interest: so it stays in the kernel, and leaves only with a process that failed.
 */
#ifndef PROBE_RECENT_H
#define PROBE_RECENT_H

#include "copies.h"
#include "path.h"
#include "user.h"
#include "words.h"
#include "written.h"

/*
 * No LRU, which evicts early when it has few entries; and allocated beforehand, for an
 * allocation of this size often fails in a hurry. An entry goes with its process.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32); /* thread group, in the initial pid namespace */
	__type(value, struct recent);
} recents SEC(".maps");

/* A new map value must not be built on the 512-byte stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct recent);
} no_recent SEC(".maps");

static __always_inline struct recent *recent_of_current(void)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32, zero = 0;
	u64 span = span_of(current_task());
	struct recent *recent, *empty;

	if (!span)
		return NULL;
	recent = bpf_map_lookup_elem(&recents, &tgid);
	if (recent)
		return recent;
	empty = bpf_map_lookup_elem(&no_recent, &zero);
	if (empty && bpf_map_update_elem(&recents, &tgid, empty, BPF_NOEXIST) == -E2BIG)
		count_loss(span, RECORD_RECENT);
	return bpf_map_lookup_elem(&recents, &tgid);
}

static __always_inline void keep_missing(u64 path)
{
	struct recent *recent = recent_of_current();
	struct missing *missing;

	if (!recent)
		return;
	missing = &recent->missing[recent->missing_total & (MISSING_COUNT - 1)];
	if (bpf_probe_read_user_str(missing->path, sizeof(missing->path), (void *)path) <= 1)
		return;
	missing->time_ns = bpf_ktime_get_boot_ns();
	recent->missing_total++;
}

#define NULL_DEVICE (1 << 20 | 3) /* dev_t of /dev/null: major 1, minor 3 (null(4)) */

static __always_inline bool is_null_device(struct file *file)
{
	return file && BPF_CORE_READ(file, f_inode, i_rdev) == NULL_DEVICE;
}

/* What is being kept of a text: on the stack the verifier would follow its every length. */
struct speech {
	u64 from;
	u64 size;
	u32 is_output;
	u32 pad;
};

SCRATCH(speech);

STEP keep_next(u32 at, void *unused)
{
	struct recent *recent = recent_of_current();
	struct speech *said = scratch_speech();
	u64 piece;

	if (!recent || !said || !said->size)
		return 1;
	piece = said->size < WORDS_SIZE ? said->size : WORDS_SIZE;
	keep_piece(said->is_output ? &recent->output : &recent->errors, said->from, piece);
	said->from += piece;
	said->size -= piece;
	return 0;
}

__noinline int keep_text(u64 from, u64 size, u32 is_output)
{
	struct recent *recent = recent_of_current();
	struct speech *said = scratch_speech();

	if (!recent || !said)
		return 0;
	if (!is_output)
		recent->silenced = is_null_device(file_of(current_task(), STDERR));
	if (size > WORDS_COUNT * WORDS_SIZE) {
		from += size - WORDS_COUNT * WORDS_SIZE;
		size = WORDS_COUNT * WORDS_SIZE;
	}
	said->from = from;
	said->size = size;
	said->is_output = is_output;
	repeat(WORDS_COUNT, keep_next, NULL);
	return 0;
}

#define IOVECS 10

/* How what is written lies in memory: in one, or in an array of struct iovec. */
enum form {
	WHOLE,
	PIECES,
	COMPAT_PIECES,
};

/*
 * A shell writes what is meant for stderr to descriptor 1, made a copy of 2 for the
 * while, and a test framework to a copy that it made at its start; so it is the file
 * that counts, not the number.
 */
static __always_inline bool is_spoken(u64 fd)
{
	return fd == STDOUT || fd == STDERR || is_copy(fd);
}

__noinline int keep_words(u64 buffer, u64 count, u32 form, u32 fd)
{
	struct task_struct *task = current_task();
	bool is_output = fd == STDOUT && !is_same_file(task, STDOUT, STDERR);
	struct piece part;

	if (form == WHOLE)
		return keep_text(buffer, count, is_output);
	for (int i = 0; i < IOVECS; i++) {
		if (i >= count || !read_piece(&part, buffer, i, form == COMPAT_PIECES))
			return 0;
		keep_text(part.base, part.size, is_output);
	}
	return 0;
}

/* Of what a process looked for, what others had made (recent_record). */
struct gone {
	u32 tgid; /* whose */
	u32 count;
	u32 slots[GONE_COUNT];
	struct writer writers[GONE_COUNT];
};

SCRATCH(gone);

STEP note_gone(u32 at, void *unused)
{
	struct gone *found = scratch_gone();
	struct recent *recent = found ? bpf_map_lookup_elem(&recents, &found->tgid) : NULL;
	u32 slot;

	if (!recent || at >= MISSING_COUNT || at >= recent->missing_total)
		return 1;
	slot = found->count;
	if (slot >= GONE_COUNT)
		return 1;
	if (find_writer(current_task(), &recent->missing[at], &found->writers[slot])) {
		found->slots[slot] = at;
		found->count = slot + 1;
	}
	return 0;
}

static __always_inline void emit_recent(struct task_struct *task, u32 tgid, struct recent *recent,
					u32 of_creator)
{
	struct gone *found = scratch_gone();
	struct recent_record *e;

	if (!found)
		return;
	found->tgid = tgid;
	found->count = 0;
	repeat(MISSING_COUNT, note_gone, NULL);
	e = record_reserve(sizeof(*e), RECORD_RECENT, task);
	if (!e)
		return;
	e->of_creator = of_creator;
	e->gone = found->count;
	__builtin_memcpy(e->gone_slots, found->slots, sizeof(e->gone_slots));
	__builtin_memcpy(e->writers, found->writers, sizeof(e->writers));
	bpf_probe_read_kernel(&e->recent, sizeof(e->recent), recent);
	bpf_ringbuf_submit(e, wake(false));
}

/* A shell looks a program up before it forks, so the child's creator knows what was missing. */
static __always_inline void report_recent(struct task_struct *task, bool failed)
{
	u32 tgid = task->tgid, creator = BPF_CORE_READ(task, real_parent, tgid);
	struct recent *recent = bpf_map_lookup_elem(&recents, &tgid), *theirs;
	bool knows = false;

	if (recent) {
		/* Not what a shell's child looks for that is to say what its shell did not find. */
		knows = recent->missing_total && !(task->flags & PF_FORKNOEXEC);
		if (failed)
			emit_recent(task, tgid, recent, 0);
		bpf_map_delete_elem(&recents, &tgid);
	}
	if (!failed || knows)
		return;
	theirs = bpf_map_lookup_elem(&recents, &creator);
	if (theirs && theirs->missing_total)
		emit_recent(task, creator, theirs, 1);
}

#endif
