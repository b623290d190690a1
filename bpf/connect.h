/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Outbound connections and how they ended. */
#ifndef PROBE_CONNECT_H
#define PROBE_CONNECT_H

#include "address.h"
#include "calls.h"
#include "fold.h"
#include "path.h"
#include "recent.h"

/* A connect that said EINPROGRESS, until the handshake ends in a softirq of anybody's. */
struct pending {
	u64 started_ns;
	int soft_error; /* what an ICMP message said during the call, while the socket was locked */
	u32 in_call;    /* connect(2) has not returned yet, and tells the result itself */
	u32 pad;
	struct record head;
	struct sockaddr_bytes peer;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u64); /* struct sock * */
	__type(value, struct pending);
} pendings SEC(".maps");

/* The struct sock * of a descriptor of the current process; 0 where it is no socket. */
__noinline u64 sock_number(u32 fd)
{
	struct file *file = file_of(current_task(), fd);
	struct socket *socket;

	if (!file)
		return 0;
	socket = BPF_CORE_READ(file, private_data);
	if (!socket || BPF_CORE_READ(socket, file) != file)
		return 0;
	return (u64)BPF_CORE_READ(socket, sk);
}

static __always_inline struct sock *sock_of(u64 fd)
{
	return (struct sock *)sock_number((u32)fd);
}

static __always_inline void keep_pending(struct task_struct *task, struct sock *sk,
					 struct sockaddr_bytes *peer, bool in_call)
{
	struct pending pending = {
		.started_ns = bpf_ktime_get_boot_ns(),
		.soft_error = BPF_CORE_READ(sk, sk_err_soft),
		.in_call = in_call,
		.peer = *peer,
	};
	u64 key = (u64)sk;

	if (identify(&pending.head, RECORD_CONNECT, task))
		bpf_map_update_elem(&pendings, &key, &pending, BPF_ANY);
}

/* The call is over, or was interrupted for good: from here on the handshake tells. */
static __always_inline bool left_in_flight(struct sock *sk)
{
	u64 key = (u64)sk;
	struct pending *pending = bpf_map_lookup_elem(&pendings, &key);

	if (!pending)
		return false;
	pending->in_call = false;
	pending->soft_error = BPF_CORE_READ(sk, sk_err_soft);
	return true;
}

static __always_inline void forget_pending(struct sock *sk)
{
	u64 key = (u64)sk;

	bpf_map_delete_elem(&pendings, &key);
}

/* Did it end between the call and now? Then it is ours to report, unless the other side did. */
static __always_inline bool ended_meanwhile(struct sock *sk)
{
	u64 key = (u64)sk;

	return BPF_CORE_READ(sk, __sk_common.skc_state) != TCP_SYN_SENT &&
	       !bpf_map_delete_elem(&pendings, &key);
}

/* Who began to listen on a port, by network namespace and port. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u32); /* the process */
} listeners SEC(".maps");

static __always_inline u64 listener_key(struct sock *sk, u16 port)
{
	return (u64)BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum) << 16 | port;
}

/* In listen(2), which chooses a port where bind(2) did not. */
static __always_inline void begins_to_listen(struct sock *sk)
{
	u64 key = listener_key(sk, BPF_CORE_READ(sk, __sk_common.skc_num));
	u32 pid = task_tgid(current_task());

	bpf_map_update_elem(&listeners, &key, &pid, BPF_ANY);
}

/* The process that listens where a socket is connected to on this machine; 0: not known. */
__noinline u32 server_of(u64 socket, u32 port)
{
	struct sock *sk = (struct sock *)socket;
	struct pid *peer = BPF_CORE_READ(sk, sk_peer_pid); /* of AF_UNIX (unix(7), SO_PEERCRED) */
	u64 key = listener_key(sk, port);
	u32 *pid;

	if (peer)
		return pid_in_scope((u64)peer);
	pid = bpf_map_lookup_elem(&listeners, &key);
	return pid ? *pid : 0;
}

/* Sockets that talk to name servers, by process and descriptor. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct sockaddr_bytes);
} name_sockets SEC(".maps");

/* Whether there is one at all: until then reads and writes need no second look. */
u32 names_asked = 0;

static __always_inline u64 name_socket_key(int fd)
{
	return (bpf_get_current_pid_tgid() & ~0xffffffffULL) | (u32)fd;
}

static __always_inline void note_name_socket(int fd, struct sockaddr_bytes *peer)
{
	u64 key = name_socket_key(fd);

	if (!span_of(current_task()))
		return; /* others' names are nobody's business, and would cost every call a look */
	bpf_map_update_elem(&name_sockets, &key, peer, BPF_ANY);
	names_asked = 1;
}

static __always_inline void emit_connect(struct task_struct *task, struct sock *sk,
					 struct sockaddr_bytes *peer, u16 type, u16 stage,
					 s64 ret, u32 serial, u64 path, u64 path_size)
{
	struct connect_record *e;

	e = storm_reserve(sizeof(*e), RECORD_CONNECT, task, peer->port, -ret,
			  thing_of_address(peer));
	if (!e)
		return;
	e->head.serial = serial;
	e->duration_ns = 0;
	e->capabilities = task_capabilities(task);
	e->error = -ret;
	e->family = peer->family;
	e->port = peer->port;
	e->type = type;
	e->stage = stage;
	e->abandoned = 0;
	e->server = stage == CONNECT_CALLED && !ret ? server_of((u64)sk, peer->port) : 0;
	__builtin_memcpy(e->address, peer->address, 16);
	__builtin_memset(e->path, 0, sizeof(e->path));
	if (path && path_size <= UNIX_PATH_SIZE) {
		at_most(path_size, UNIX_PATH_SIZE);
		bpf_probe_read_user(e->path, path_size, (void *)path);
	}
	bpf_ringbuf_submit(e, wake(false));
}

static __always_inline void report_connect(struct task_struct *task, u64 args[6], s64 ret,
					   u32 serial)
{
	struct sockaddr_bytes peer = {};
	struct sock *sk = sock_of(args[0]);
	u16 type = sk ? BPF_CORE_READ(sk, sk_type) : 0;
	u64 path = 0;

	if (ret == -EALREADY || ret == -EISCONN)
		return; /* says something of an earlier call */
	read_peer(&peer, args[1]);
	if (peer.family == AF_UNIX) {
		peer.port = 0;
		path = args[1] + 2;
	} else if (peer.port == DNS_PORT && (!ret || ret == -EINPROGRESS)) {
		note_name_socket(args[0], &peer);
	}
	if (sk && type == SOCK_STREAM && (ret == -EINPROGRESS || ret == -EINTR) && !path) {
		if (!left_in_flight(sk))
			keep_pending(task, sk, &peer, false);
		if (!ended_meanwhile(sk))
			return;
		ret = -BPF_CORE_READ(sk, sk_err);
	}
	forget_pending(sk);
	emit_connect(task, sk, &peer, type, CONNECT_CALLED, ret, serial, path,
		     (u32)args[2] - 2);
}

static __always_inline void report_bind(struct task_struct *task, u64 args[6], s64 ret, u32 serial)
{
	struct sockaddr_bytes local = {};
	struct sock *sk = sock_of(args[0]);
	u64 path = 0;

	read_peer(&local, args[1]);
	if (local.family == AF_UNIX) {
		local.port = 0;
		path = args[1] + 2;
		if (ret == -ENOENT || ret == -ENOTDIR)
			keep_missing(path);
	}
	if (bind_error(settings.file_errnos, ret))
		emit_connect(task, sk, &local, sk ? BPF_CORE_READ(sk, sk_type) : 0, CONNECT_BOUND, ret,
			     serial, path, (u32)args[2] - 2);
}

static __always_inline void peer_of(struct sock *sk, struct sockaddr_bytes *peer)
{
	peer->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	peer->port = host_order(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (peer->family == AF_INET6)
		BPF_CORE_READ_INTO((struct in6_addr *)peer->address, sk, __sk_common.skc_v6_daddr);
	else if (peer->family == AF_INET)
		BPF_CORE_READ_INTO((u32 *)peer->address, sk, __sk_common.skc_daddr);
}

/* By connect(2), or by io_uring, or by sendto with MSG_FASTOPEN. */
static __always_inline void connect_begins(struct sock *sk)
{
	bool in_call = regs_syscall(current_regs()) == settings.connect_nr;
	struct sockaddr_bytes peer = {};

	peer_of(sk, &peer);
	keep_pending(current_task(), sk, &peer, in_call);
}

static __always_inline void connect_state(struct sock *sk, int old_state, int new_state)
{
	u64 key = as_number(sk);
	struct pending *pending;
	struct connect_record *e;
	int error;

	if (new_state == TCP_LISTEN)
		begins_to_listen(sk);
	if (new_state == TCP_SYN_SENT)
		connect_begins(sk);
	if (old_state != TCP_SYN_SENT)
		return;
	pending = bpf_map_lookup_elem(&pendings, &key);
	if (!pending)
		return;
	if (pending->in_call) {
		bpf_map_delete_elem(&pendings, &key);
		return;
	}
	e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		count_loss(pending->head.span, RECORD_CONNECT);
	} else {
		error = BPF_CORE_READ(sk, sk_err);
		if (!error && new_state == TCP_CLOSE)
			error = pending->soft_error;
		e->head = pending->head;
		e->head.time_ns = bpf_ktime_get_boot_ns();
		e->duration_ns = e->head.time_ns - pending->started_ns;
		e->capabilities = 0;
		e->error = error;
		e->family = pending->peer.family;
		e->port = pending->peer.port;
		e->type = SOCK_STREAM;
		e->stage = CONNECT_PENDING;
		e->abandoned = new_state == TCP_CLOSE && !error;
		e->server = error ? 0 : server_of(key, pending->peer.port);
		__builtin_memcpy(e->address, pending->peer.address, 16);
		__builtin_memset(e->path, 0, sizeof(e->path));
		bpf_ringbuf_submit(e, wake(false));
	}
	bpf_map_delete_elem(&pendings, &key);
}

#endif
