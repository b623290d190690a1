/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Structures in user memory, in the layout of 64-bit callers and of 32-bit ones. */
#ifndef PROBE_USER_H
#define PROBE_USER_H

#include "base.h"

struct piece { /* struct iovec */
	u64 base;
	u64 size;
};

struct piece_compat {
	u32 base;
	u32 size;
};

static __always_inline bool read_piece(struct piece *out, u64 vector, u32 index, bool compat)
{
	struct piece_compat narrow;

	if (!compat)
		return !bpf_probe_read_user(out, sizeof(*out),
					    (void *)(vector + index * sizeof(*out)));
	if (bpf_probe_read_user(&narrow, sizeof(narrow),
				(void *)(vector + index * sizeof(narrow))))
		return false;
	out->base = narrow.base;
	out->size = narrow.size;
	return true;
}

struct message { /* struct msghdr */
	u64 name;
	u32 name_size;
	u32 pad;
	u64 pieces;
	u64 count;
	u64 control[2];
	u64 flags;
};

struct message_compat {
	u32 name;
	u32 name_size;
	u32 pieces;
	u32 count;
	u32 control[2];
	u32 flags;
};

struct batched { /* struct mmsghdr */
	struct message message;
	u64 size;
};

struct batched_compat {
	struct message_compat message;
	u32 size;
};

/* One message of an array, or the only one (index 0). */
static __always_inline void read_message(struct message *out, u64 messages, u32 index, bool compat)
{
	struct message_compat narrow = {};

	if (!compat) {
		bpf_probe_read_user(out, sizeof(*out),
				    (void *)(messages + index * sizeof(struct batched)));
		return;
	}
	bpf_probe_read_user(&narrow, sizeof(narrow),
			    (void *)(messages + index * sizeof(struct batched_compat)));
	out->name = narrow.name;
	out->pieces = narrow.pieces;
}

#endif
