/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The strings that execve(2) is given, and paths, in user memory. */
#ifndef PROBE_STRINGS_H
#define PROBE_STRINGS_H

#include "base.h"
#include "events.h"

static __always_inline u64 string_at(u64 vector, u32 index, bool compat)
{
	u32 size = compat ? sizeof(u32) : sizeof(u64);
	u64 address = 0;

	bpf_probe_read_user(&address, size, (void *)(vector + index * size));
	return address;
}

/* Each in its own slot, cut to its size; how many were filled. */
static __always_inline u32 read_argv(char argv[ARGV_COUNT][ARG_SIZE], u64 vector, bool compat)
{
	u32 count = 0;
	u64 arg;

	for (int i = 0; i < ARGV_COUNT; i++) {
		argv[i][0] = 0;
		arg = string_at(vector, i, compat);
		if (!arg)
			break;
		if (bpf_probe_read_user_str(argv[i], ARG_SIZE, (void *)arg) < 0)
			break;
		count = i + 1;
	}
	return count;
}

/* Of the arguments and the environment of an execve(2) that found them too long. */
#define STRINGS_COUNTED 256
#define STRING_SIZE (2 << 16) /* MAX_ARG_STRLEN with pages of 4 KiB, execve(2) */
#define STRINGS_SIZE (6 << 20) /* no limit on all of them is above it */
#define STRING_BUFFER (STRING_SIZE + 8)

struct lengths {
	u64 size;
	u32 strings;
	u32 longest;
};

struct measuring {
	struct lengths *lengths;
	char *text; /* room for the longest */
	u64 vector;
	u64 compat;
};

STEP add_length(u32 at, struct measuring *to)
{
	struct lengths *lengths = to->lengths;
	u64 string = string_at(to->vector, at, to->compat);
	long length;

	if (!string || lengths->size >= STRINGS_SIZE)
		return 1;
	length = bpf_probe_read_user_str(to->text, STRING_SIZE + 1, (void *)string);
	if (length < 0)
		return 1;
	lengths->strings++;
	lengths->size += length;
	if (length > lengths->longest)
		lengths->longest = length;
	return 0;
}

static __always_inline void add_lengths(struct lengths *lengths, char *text, u64 vector, bool compat)
{
	struct measuring to = { lengths, text, vector, compat };

	repeat(STRINGS_COUNTED, add_length, &to);
}

#define THING_BYTES 128

/* What a path comes down to in a key. */
static __always_inline u32 thing_of_path(u64 path)
{
	u64 text[THING_BYTES / 8] = {}, sum = 0;

	bpf_probe_read_user_str(text, sizeof(text), (void *)path);
	for (int i = 0; i < THING_BYTES / 8; i++)
		sum = (sum ^ text[i]) * 0x100000001b3ULL;
	return (u32)(sum ^ (sum >> 32)) | 1;
}

#endif
