/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is sent and received: name queries, and errors that come back over a socket in use. */
#ifndef PROBE_TRAFFIC_H
#define PROBE_TRAFFIC_H

#include "connect.h"
#include "user.h"

#define BATCH 2 /* glibc asks for A and AAAA in one sendmmsg */

/* Where the bytes and the peer's address of a call lie in user memory. */
struct transfer {
	u64 data;
	u64 size;
	u64 address; /* 0: the socket is connected */
};

/* The first piece of a message, which is all of it in practice, and where it goes. */
static __always_inline void message_at(struct transfer *out, u64 messages, u32 index, bool compat)
{
	struct message message = {};
	struct piece piece = {};

	read_message(&message, messages, index, compat);
	read_piece(&piece, message.pieces, 0, compat);
	out->data = piece.base;
	out->size = piece.size;
	out->address = message.name;
}

static __always_inline void report_dns(struct task_struct *task, struct sockaddr_bytes *peer,
				       struct transfer *transfer, bool answer)
{
	struct dns_record *e;
	u64 size = transfer->size;

	e = storm_reserve(sizeof(*e), RECORD_DNS, task, answer, 0, EVERYTHING);
	if (!e)
		return;
	e->family = peer->family;
	e->answer = answer;
	e->port = peer->port;
	at_most(size, DNS_SIZE);
	e->size = size;
	__builtin_memcpy(e->address, peer->address, 16);
	if (bpf_probe_read_user(e->data, size, (void *)transfer->data))
		e->size = 0;
	bpf_ringbuf_submit(e, wake(false));
}

static __always_inline void sent(struct task_struct *task, int fd, struct transfer *transfer)
{
	u64 key = name_socket_key(fd);
	struct sockaddr_bytes *known = bpf_map_lookup_elem(&name_sockets, &key), peer = {};

	if (transfer->address) {
		read_peer(&peer, transfer->address);
		if (peer.port != DNS_PORT || peer.family == AF_UNIX)
			return;
		note_name_socket(fd, &peer);
		report_dns(task, &peer, transfer, false);
	} else if (known) {
		report_dns(task, known, transfer, false);
	}
}

/* After a successful transfer over what may be a socket to a name server. */
__noinline int transferred(u32 number, s64 ret)
{
	struct task_struct *task = current_task();
	bool compat = number & COMPAT_CALL;
	struct transfer transfer = {};
	struct sockaddr_bytes *known;
	struct piece piece = {};
	struct call *call;
	u64 args[6], key;

	call = call_of(read_call(number, args));
	if (!call || !call->transfer)
		return 0;
	transfer.data = args[1];
	transfer.size = ret;
	switch (call->transfer) {
	case TRANSFER_SEND_TO:
		transfer.address = args[4];
		/* fall through */
	case TRANSFER_SEND:
		sent(task, args[0], &transfer);
		return 0;
	case TRANSFER_SEND_MESSAGE:
		message_at(&transfer, args[1], 0, compat);
		sent(task, args[0], &transfer);
		return 0;
	case TRANSFER_SEND_VECTOR:
		read_piece(&piece, args[1], 0, compat);
		transfer.data = piece.base;
		transfer.size = piece.size;
		sent(task, args[0], &transfer);
		return 0;
	case TRANSFER_SEND_BATCH:
		for (int i = 0; i < BATCH && i < ret; i++) {
			message_at(&transfer, args[1], i, compat);
			sent(task, args[0], &transfer);
		}
		return 0;
	}
	key = name_socket_key(args[0]);
	known = bpf_map_lookup_elem(&name_sockets, &key);
	if (!known)
		return 0;
	if (call->transfer == TRANSFER_RECEIVE_MESSAGE) {
		message_at(&transfer, args[1], 0, compat);
		transfer.size = ret;
	}
	report_dns(task, known, &transfer, true);
	return 0;
}

/* An error that came back over a socket in use. False where it is no socket. */
static __always_inline bool report_transfer_error(struct task_struct *task, struct call *call,
						  u64 args[6], s64 ret, u32 serial)
{
	struct sock *sk = sock_of(args[0]);
	struct sockaddr_bytes peer = {};
	u64 address = 0;

	if (!sk)
		return false;
	if (call->transfer == TRANSFER_SEND_TO)
		address = args[4];
	if (address)
		read_peer(&peer, address);
	else
		peer_of(sk, &peer);
	emit_connect(task, sk, &peer, BPF_CORE_READ(sk, sk_type), CONNECT_IN_USE, ret, serial, 0,
		     0);
	return true;
}

#endif
