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

#define THING_BYTES 128

/* What a path, an address or a descriptor comes down to in a key. */
static __always_inline u32 thing_of_path(u64 path)
{
	u64 text[THING_BYTES / 8] = {}, sum = 0;

	bpf_probe_read_user_str(text, sizeof(text), (void *)path);
	for (int i = 0; i < THING_BYTES / 8; i++)
		sum = (sum ^ text[i]) * 0x100000001b3ULL;
	return (u32)(sum ^ (sum >> 32)) | 1;
}

#endif
