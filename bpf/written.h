/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who made which file: so that one that is looked for later and is not there (another
 * mount namespace, a layer that was thrown away) is told from one that never was.
 *
 * Paths are kept as hashes of what the caller wrote, joined to its directory. What the
 * work itself removed or moved away stays, as nobody's: so what lay in it is known to be
 * its own affair too.
 */
#ifndef PROBE_WRITTEN_H
#define PROBE_WRITTEN_H

#include "calls.h"
#include "copies.h"
#include "path.h"

#define O_CREAT 0100

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct writer);
} written SEC(".maps");

/* Two parts of a path, and their hash as it comes about: not on the stack, so that the
 * verifier, which knows nothing of a map's content, is done with one step.
 */
struct path_pair {
	char base[PATH_SIZE];
	char path[PATH_SIZE];
	u64 hash;
	u32 of_base; /* 1: it is the base's turn, 0: the path's */
	u32 ask;     /* 1: whether the work itself removed a directory on the way */
	u32 begins;  /* 1: a name, so that a lone dot is none */
	u32 pad;
};

SCRATCH(path_pair);

static __always_inline u64 mix(u64 hash, u8 byte)
{
	return (hash ^ byte) * 0x100000001b3ULL; /* FNV-1a */
}

#define NOBODY 0

static __always_inline bool is_nobodys(u64 key)
{
	struct writer *writer = bpf_map_lookup_elem(&written, &key);

	return writer && writer->pid == NOBODY;
}

STEP hash_byte(u32 at, void *unused)
{
	struct path_pair *pair = scratch_path_pair();
	const char *text;
	u8 byte, next;

	if (!pair || at >= PATH_SIZE - 1)
		return 1;
	text = pair->of_base ? pair->base : pair->path;
	byte = text[at];
	next = text[at + 1];
	if (!byte)
		return 1;
	if (byte == '/') {
		pair->begins = true;
		return 0;
	}
	if (pair->begins && byte == '.' && (!next || next == '/'))
		return 0;
	if (pair->begins && pair->ask && is_nobodys(pair->hash)) {
		pair->hash = 0;
		return 1;
	}
	if (pair->begins)
		pair->hash = mix(pair->hash, '/');
	pair->begins = false;
	pair->hash = mix(pair->hash, byte);
	return 0;
}

/*
 * Of what lies in this CPU's pair: "a//b/" and "./a/b" come to the same as "a/b". Becomes 0
 * at a directory that the work itself removed, if that is asked. A global function: verified
 * once.
 */
__noinline u64 hash_pair(u32 ask)
{
	struct path_pair *pair = scratch_path_pair();

	if (!pair)
		return 0;
	pair->hash = 0xcbf29ce484222325ULL;
	pair->ask = ask;
	pair->begins = true;
	pair->of_base = true;
	if (pair->path[0] != '/')
		repeat(PATH_SIZE - 1, hash_byte, NULL);
	pair->begins = true;
	pair->of_base = false;
	if (pair->hash)
		repeat(PATH_SIZE - 1, hash_byte, NULL);
	return pair->hash;
}

static __always_inline u64 hash_of(struct task_struct *task, u64 path, int dirfd)
{
	struct path_pair *pair = scratch_path_pair();
	long size;

	if (!pair)
		return 0;
	size = bpf_probe_read_user_str(pair->path, PATH_SIZE, (void *)path);
	if (size <= 1 || size >= PATH_SIZE)
		return 0; /* one that was cut may pass for another */
	base_text(task, pair->path, dirfd, pair->base);
	return hash_pair(false);
}

static __always_inline void note_writer(struct task_struct *task, u32 pid, u64 path, int dirfd)
{
	u64 key = hash_of(task, path, dirfd);
	struct writer writer = {
		.time_ns = bpf_ktime_get_boot_ns(),
		.span = span_of(task),
		.pid = pid,
		.mnt_ns = BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum),
	};

	BPF_CORE_READ_STR_INTO(&writer.comm, task, comm);
	if (key)
		bpf_map_update_elem(&written, &key, &writer, BPF_ANY);
}

/* What a span removes itself is its own affair; what others remove is missed all the same. */
static __always_inline void note_removal(struct task_struct *task, u64 path, int dirfd)
{
	u64 key = hash_of(task, path, dirfd);
	struct writer *writer = key ? bpf_map_lookup_elem(&written, &key) : NULL;

	if (writer && writer->span == span_of(task))
		writer->pid = NOBODY;
}

/* After a call that made, renamed or removed something, or copied a descriptor. */
__noinline int changed_files(u32 number, s64 ret)
{
	struct task_struct *task = current_task();
	struct call *call = call_of(number);
	u64 args[6], path;
	int dirfd;

	if (!call || call->change == CHANGE_NONE || !span_of(task))
		return 0;
	read_call(number, args);
	path = call_arg(args, call->path_arg);
	dirfd = call->dirfd_arg == NO_ARG ? AT_FDCWD : (s32)call_arg(args, call->dirfd_arg);
	switch (call->change) {
	case CHANGE_COPIES:
	case CHANGE_COPIES_BY:
		note_copy(args[0], args[1], call->change, ret);
		return 0;
	case CHANGE_OPENS:
		if (!(call_arg(args, call->path_arg + 1) & O_CREAT))
			return 0;
		break;
	case CHANGE_REMOVES:
		note_removal(task, path, dirfd);
		return 0;
	case CHANGE_RENAMES:
		note_removal(task, args[0], AT_FDCWD);
		break;
	case CHANGE_RENAMES_AT:
		note_removal(task, args[1], args[0]);
		break;
	}
	note_writer(task, task_tgid(task), path, dirfd);
	return 0;
}

/* Who had made what a process looked for in vain; false: nobody that was seen. */
static __always_inline bool find_writer(struct task_struct *task, struct missing *missing,
					struct writer *out)
{
	struct path_pair *pair = scratch_path_pair();
	struct writer *writer;
	long size;
	u64 key;

	if (!pair)
		return false;
	size = bpf_probe_read_kernel_str(pair->path, MISSING_SIZE, missing->path);
	if (size <= 1 || size >= MISSING_SIZE)
		return false;
	base_text(task, pair->path, AT_FDCWD, pair->base);
	key = hash_pair(true);
	writer = bpf_map_lookup_elem(&written, &key);
	if (!writer || writer->pid == NOBODY || writer->time_ns > missing->time_ns)
		return false;
	*out = *writer;
	return true;
}

#endif
