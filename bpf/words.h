/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The last words of a process, in the slots of struct words. */
#ifndef PROBE_WORDS_H
#define PROBE_WORDS_H

#include "base.h"
#include "events.h"

#define STDIN 0
#define STDOUT 1
#define STDERR 2

static __always_inline u32 words_slot(struct words *words)
{
	u32 total = words->total;

	return total < WORDS_COUNT ? total : 1 + (total - 1) % (WORDS_COUNT - 1);
}

/* Small pieces share a slot: many runtimes print an error in a dozen writes. */
static __always_inline void keep_piece(struct words *words, u64 from, u64 size)
{
	u32 at = words->used, slot;

	/* Older verifiers get bounds by comparisons wrong, and by a mask right. */
	barrier_var(size);
	size &= 2 * WORDS_SIZE - 1;
	if (size > WORDS_SIZE)
		return;
	barrier_var(size);
	if (size == 0)
		return;
	if (at + size > WORDS_SIZE) {
		words->total++;
		at = 0;
	}
	slot = words_slot(words);
	barrier_var(slot); /* else the compiler drops the mask that the verifier needs */
	slot &= WORDS_COUNT - 1;
	bpf_probe_read_user(&words->text[slot][at & (WORDS_SIZE - 1)], size, (void *)from);
	words->size[slot] = at + size;
	words->used = at + size;
}

#endif
