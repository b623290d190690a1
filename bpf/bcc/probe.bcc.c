// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The programs for kernels without BTF. libbcc compiles them where they run, and takes the
 * fields of tracepoints from the running kernel. Of the kernel's own structures nothing can
 * be read: what is told follows from tracepoints, from the saved registers and from user
 * memory, and the rest is looked up by the reader (probe/engine/bcc).
 */
#include "address.h"
#include "bcc/registers.h"
#include "bcc/task.h"
#include "call.h"
#include "events.h"
#include "strings.h"
#include "user.h"
#include "words.h"

#define SYSCALLS 512
#define TASKS 65536
#define RING_PAGES 512
#define RING_SIZE (RING_PAGES * PAGE_SIZE)
#define NO_PREALLOC 1
#define CLONE_THREAD 0x00010000
#define HIDDEN ((u32)-1)
#define FOLD_FIRST 8
#define FOLD_INTERVAL_NS 100000000ULL
#define FOLD_FIRST_THINGS 256
#define FOLD_INTERVAL_THINGS_NS 20000000ULL
#define EVERYTHING ((u32)-1)
#define GIVEN_UP_NS 100000000ULL
#define BATCH 2
#define IOVECS 10
#define F_DUPFD 0
#define F_DUPFD_CLOEXEC 1030
#define SOL_SOCKET 1
#define SO_ERROR 4
#define PR_SET_SECCOMP 22
#define SECCOMP_MODE_STRICT 1
#define SECCOMP_SET_MODE_STRICT 0
#define SECCOMP_SET_MODE_FILTER 1
#define SIG_DFL 0
#define SIGNAL_DELIVERED 0 /* TRACE_SIGNAL_DELIVERED */
#define SIGNALS 31
/* Those whose default is to be ignored, to stop or to go on (signal(7)). */
#define HARMLESS (1U << 17 | 1U << 18 | 1U << 19 | 1U << 20 | 1U << 21 | 1U << 22 | 1U << 23 | 1U << 28)

/* How a process ends, before it does. */
struct ending {
	u32 known;   /* 1: `status` is what wait(2) will say */
	s32 status;
	u32 signal;  /* the last that was sent and ends processes; 0: none was */
	u32 sender;  /* 0: none */
	u32 killed;  /* 1: SIGKILL took it, which none may have sent (execve(2) by another thread) */
	char sender_comm[COMM_SIZE];
};

/* The arguments that execve(2) was given. */
struct arguments {
	u32 argc;
	u32 pad;
	char argv[ARGV_COUNT][ARG_SIZE];
};

struct string {
	char text[STRING_BUFFER];
};

/* Of an open file, as it was given to open(2). */
struct name {
	char text[PATH_SIZE];
};

/* The call that ends just now; too large for the stack. */
struct site {
	struct registers regs;
	u64 args[6];
	s64 ret;
	s32 nr;
	u32 number; /* with the mark of its table */
	u32 serial;
	u32 compat;
	struct name name;
};

BPF_ARRAY(configured, struct settings, 1);
BPF_ARRAY(calls, struct call, 2 * SYSCALLS);
BPF_RINGBUF_OUTPUT(ring, RING_PAGES);
BPF_ARRAY(unread, u64, 1);
BPF_F_TABLE("hash", u32, struct task, tasks, TASKS, NO_PREALLOC);
BPF_ARRAY(fresh_task, struct task, 1);
BPF_TABLE("lru_hash", u32, struct ending, endings, TASKS);
BPF_TABLE("lru_hash", u32, struct arguments, executed, 1024);
BPF_ARRAY(no_arguments, struct arguments, 1);
BPF_TABLE("lru_hash", u64, struct socket, sockets, 8192);
BPF_TABLE("lru_hash", struct loss_key, u64, losses, 4096);
BPF_F_TABLE("hash", struct fold_key, struct fold, folds, 8192, NO_PREALLOC);
BPF_HASH(recents, u32, struct recent, 1024);
BPF_ARRAY(no_recent, struct recent, 1);
BPF_PERCPU_ARRAY(sites, struct site, 1);
BPF_PERCPU_ARRAY(lengths_of_call, struct lengths, 1);
BPF_ARRAY(measured, struct string, 1);
BPF_TABLE("lru_hash", u64, struct name, opened_files, 4096);
BPF_TABLE("lru_hash", u32, struct name, folders, 4096);

static struct settings *settings_now(void)
{
	int zero = 0;

	return configured.lookup(&zero);
}

/* NULL for whoever is part of no span, where not everybody is watched. */
static struct task *current_task(struct settings *settings)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id, tgid = id >> 32;
	struct task *task = tasks.lookup(&tid), *fresh;
	int zero = 0;

	if (tgid == settings->self_tgid)
		return NULL;
	if (task || !settings->everyone)
		return task;
	fresh = fresh_task.lookup(&zero);
	if (!fresh)
		return NULL;
	tasks.insert(&tid, fresh);
	task = tasks.lookup(&tid);
	if (task)
		task->tgid = tgid;
	return task;
}

static void count_loss(u64 span, u32 kind)
{
	struct loss_key key = { .span = span, .kind = kind };
	u64 none = 0, *count = losses.lookup_or_try_init(&key, &none);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* What has gone into the ring since the reader began to empty it last, in bytes. */
static u64 *unread_bytes(void)
{
	int zero = 0;

	return unread.lookup(&zero);
}

static u64 wake(bool urgent)
{
	u64 *bytes = unread_bytes();

	return urgent || (bytes && *bytes > RING_SIZE / 4) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static void identify(struct record *head, u32 kind, struct task *task)
{
	u64 id = bpf_get_current_pid_tgid();

	head->time_ns = bpf_ktime_get_boot_ns();
	head->span = task->span;
	head->kind = kind;
	head->pid = id >> 32;
	head->tid = id;
	head->ppid = task->creator;
	head->uid = bpf_get_current_uid_gid();
	head->mnt_ns = 0;
	head->serial = 0;
	head->count = 1;
	head->inner_pid = 0;
	head->session = 0;
	bpf_get_current_comm(head->comm, sizeof(head->comm));
}

/* A place in the ring, its head filled in; NULL when the ring is full (counted). */
static void *record_reserve(u64 size, u32 kind, struct task *task)
{
	bool nobodys = task->span == NOBODYS_SPAN;
	u64 *bytes = unread_bytes();
	struct record *place = NULL;

	if (!bytes)
		return NULL;
	/* Half of the ring is for those that somebody asked for. */
	if (!nobodys || *bytes <= RING_SIZE / 2)
		place = ring.ringbuf_reserve(size);
	if (!place) {
		count_loss(task->span, kind);
		return NULL;
	}
	__sync_fetch_and_add(bytes, size);
	identify(place, kind, task);
	return place;
}

static u32 count_one(struct fold_key *key, u32 first, u64 interval_ns, u32 stands_for)
{
	struct fold fresh = { .told_ns = bpf_ktime_get_boot_ns(), .told = 1 }, *known;
	u32 hidden;

	known = folds.lookup(key);
	if (!known) {
		folds.insert(key, &fresh);
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

/* 0: do not tell. Else tell, for one call and `result - 1` like it before (fold.h). */
static u32 fold(struct task *task, u32 kind, u32 syscall, s32 error, u32 thing)
{
	struct fold_key key = { .kind = kind, .syscall = syscall, .error = error };
	u32 count = 1;

	key.span = task->span;
	key.pid = bpf_get_current_pid_tgid() >> 32;
	key.thing = thing;
	if (thing != EVERYTHING) {
		count = count_one(&key, FOLD_FIRST, FOLD_INTERVAL_NS, 1);
		if (!count || !thing)
			return count;
	}
	key.thing = EVERYTHING;
	return count_one(&key, FOLD_FIRST_THINGS, FOLD_INTERVAL_THINGS_NS, count);
}

static void *storm_reserve(u64 size, u32 kind, struct task *task, u32 syscall, s32 error,
			   u32 thing)
{
	u32 count = fold(task, kind, syscall, error, thing);
	struct record *place;

	if (!count)
		return NULL;
	place = record_reserve(size, kind, task);
	if (place)
		place->count = count;
	return place;
}

static struct call *call_of(u32 number)
{
	int slot = number & ~COMPAT_CALL;

	if (slot >= SYSCALLS)
		slot = SYSCALLS - 1;
	if (number & COMPAT_CALL)
		slot += SYSCALLS;
	return calls.lookup(&slot);
}

/* What was looked for and said. */

static struct recent *recent_of_current(struct task *task)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	int zero = 0;
	struct recent *recent = recents.lookup(&tgid), *empty;

	if (recent)
		return recent;
	empty = no_recent.lookup(&zero);
	if (empty && recents.insert(&tgid, empty) == -E2BIG)
		count_loss(task->span, RECORD_RECENT);
	return recents.lookup(&tgid);
}

static void keep_missing(struct task *task, u64 path)
{
	struct recent *recent = recent_of_current(task);
	struct missing *missing;

	if (!recent)
		return;
	missing = &recent->missing[recent->missing_total & (MISSING_COUNT - 1)];
	if (bpf_probe_read_user_str(missing->path, sizeof(missing->path), (void *)path) <= 1)
		return;
	missing->time_ns = bpf_ktime_get_boot_ns();
	recent->missing_total++;
}

/* The end of what was written, in so many slots at most. */
static void keep_text(struct task *task, u64 from, u64 size, bool is_output, u32 slots)
{
	struct recent *recent = recent_of_current(task);
	struct words *words;
	u32 piece;

	if (!recent)
		return;
	words = is_output ? &recent->output : &recent->errors;
	if (!is_output)
		recent->silenced = task->silenced;
	if (size > slots * WORDS_SIZE) {
		from += size - slots * WORDS_SIZE;
		size = slots * WORDS_SIZE;
	}
	for (int i = 0; i < slots; i++) {
		piece = size < WORDS_SIZE ? size : WORDS_SIZE;
		keep_piece(words, from, piece);
		from += piece;
		size -= piece;
	}
}

static void emit_recent(struct task *task, struct recent *recent, u32 of_creator)
{
	struct recent_record *e = record_reserve(sizeof(*e), RECORD_RECENT, task);

	if (!e)
		return;
	e->of_creator = of_creator;
	e->gone = 0;
	bpf_probe_read_kernel(&e->recent, sizeof(e->recent), recent);
	ring.ringbuf_submit(e, wake(false));
}

/* A shell looks a program up before it forks, so the child's creator knows what was missing. */
static void report_recent(struct task *task, bool failed)
{
	u32 tgid = task->tgid, creator = task->creator;
	struct recent *recent = recents.lookup(&tgid), *theirs;
	bool knows = false;

	if (recent) {
		knows = recent->missing_total && task->executed;
		if (failed)
			emit_recent(task, recent, 0);
		recents.delete(&tgid);
	}
	if (!failed || knows)
		return;
	theirs = recents.lookup(&creator);
	if (theirs && theirs->missing_total)
		emit_recent(task, theirs, 1);
}

/* Denials. */

static void report_follow(struct task *task, u32 ended)
{
	struct follow_record *e = record_reserve(sizeof(*e), RECORD_FOLLOW, task);

	if (!e)
		return;
	__builtin_memcpy(e->calls, task->next, sizeof(e->calls));
	e->total = task->calls;
	e->head.serial = task->serial;
	e->pad = 0;
	e->ended = ended;
	ring.ringbuf_submit(e, wake(false));
}

static void follow(struct task *task, u32 number, s64 ret)
{
	u32 at = task->followed;

	task->calls++;
	if (at >= FOLLOW_UPS)
		return;
	task->next[at].syscall = number;
	task->next[at].ret = ret > 0x7fffffff ? 0x7fffffff : ret;
	task->followed = at + 1;
	if (at + 1 == FOLLOW_UPS)
		report_follow(task, 0);
}

static u32 report_denial(struct task *task, u32 number, u64 args[6], u64 ip, u32 action, s64 ret)
{
	u32 count = fold(task, RECORD_SECCOMP, number,
			 action == ACTION_RESULT ? -ret : -action, 0);
	struct call *call = call_of(number);
	struct seccomp_record *e;
	u32 serial;

	if (!count)
		return HIDDEN;
	serial = (bpf_get_prandom_u32() & 0x7fffffff) | 1;
	e = record_reserve(sizeof(*e), RECORD_SECCOMP, task);
	if (!e)
		return 0;
	__builtin_memcpy(e->args, args, sizeof(e->args));
	e->path[0] = 0;
	if (call && call->path_arg != NO_ARG)
		bpf_probe_read_user_str(e->path, sizeof(e->path),
					(void *)call_arg(e->args, call->path_arg));
	e->head.serial = serial;
	e->head.count = count;
	e->ip = ip;
	e->filter = 0;
	e->ret = ret;
	e->syscall = number & ~COMPAT_CALL;
	e->compat = number & COMPAT_CALL ? 1 : 0;
	e->action = action;
	e->entered = ENTERED_NO;
	/* Whether there is a filter at all is looked up while the process is there. */
	ring.ringbuf_submit(e, wake(true));
	if (task->serial && task->followed && task->followed < FOLLOW_UPS)
		report_follow(task, 0);
	task->serial = serial;
	task->followed = 0;
	task->calls = 0;
	return serial;
}

/* The serial of the denial, 0 where it is none, HIDDEN where nothing more is to be told. */
static u32 denied(struct task *task, struct site *site)
{
	bool unknown = !task->enters, entered = task->entered == site->nr + 1;

	task->entered = 0;
	/* Without a filter it is an emulator that keeps calls from the kernel (PTRACE_SYSEMU). */
	if (!task->filtered || unknown || entered || site->nr < 0)
		return 0;
	/* KILL and TRAP leave the call's number in the result; the signal tells. */
	if (site->ret == site->nr) {
		task->refused = site->number + 1;
		__builtin_memcpy(task->args, site->args, sizeof(task->args));
		task->ip = address_of(&site->regs);
		return HIDDEN;
	}
	return report_denial(task, site->number, site->args, address_of(&site->regs),
			     ACTION_RESULT, site->ret);
}

/* Sockets. */

static u64 socket_key(u64 fd)
{
	return (bpf_get_current_pid_tgid() & ~0xffffffffULL) | (u32)fd;
}

static struct socket *socket_of(u64 fd)
{
	u64 key = socket_key(fd);

	return sockets.lookup(&key);
}

static void note_socket(u64 fd, u16 type)
{
	struct socket fresh = { .type = type & 0xf };
	u64 key = socket_key(fd);

	sockets.update(&key, &fresh);
}

static void note_peer(struct socket *socket, struct sockaddr_bytes *peer)
{
	socket->family = peer->family;
	socket->port = peer->port;
	__builtin_memcpy(socket->address, peer->address, sizeof(socket->address));
}

static void peer_of(struct socket *socket, struct sockaddr_bytes *peer)
{
	peer->family = socket->family;
	peer->port = socket->port;
	__builtin_memcpy(peer->address, socket->address, sizeof(peer->address));
}

static void fill_peer(struct connect_record *e, struct sockaddr_bytes *peer)
{
	e->duration_ns = 0;
	e->capabilities = UNKNOWN_CAPABILITIES;
	e->family = peer->family;
	e->port = peer->port;
	e->abandoned = 0;
	e->server = 0;
	__builtin_memcpy(e->address, peer->address, 16);
	__builtin_memset(e->path, 0, sizeof(e->path));
}

static void emit_connect(struct task *task, struct sockaddr_bytes *peer, u16 type, u16 stage,
			 struct site *site, u64 path, u64 path_size)
{
	struct connect_record *e = storm_reserve(sizeof(*e), RECORD_CONNECT, task, peer->port,
						 -site->ret, thing_of_address(peer));

	if (!e)
		return;
	fill_peer(e, peer);
	e->head.serial = site->serial;
	e->error = -site->ret;
	e->type = type;
	e->stage = stage;
	barrier_var(path_size);
	if (path && path_size <= UNIX_PATH_SIZE)
		bpf_probe_read_user(e->path, path_size, (void *)path);
	ring.ringbuf_submit(e, wake(false));
}

/* How a connection ended that was under way when connect(2) returned. */
static void connect_ended(struct task *task, struct socket *socket, s32 error, u32 abandoned)
{
	struct sockaddr_bytes peer = {};
	struct connect_record *e = record_reserve(sizeof(*e), RECORD_CONNECT, task);

	if (e) {
		peer_of(socket, &peer);
		fill_peer(e, &peer);
		e->duration_ns = e->head.time_ns - socket->started_ns;
		e->error = error;
		e->type = socket->type;
		e->stage = CONNECT_PENDING;
		e->abandoned = abandoned;
		ring.ringbuf_submit(e, wake(false));
	}
	socket->started_ns = 0;
}

static void report_connect(struct task *task, struct site *site)
{
	struct socket *socket = socket_of(site->args[0]);
	struct sockaddr_bytes peer = {};
	s64 ret = site->ret;
	u64 path = 0;

	if (ret == -EALREADY)
		return;
	/* A second call tells how the first one went. */
	if (ret == -EISCONN) {
		if (socket && socket->started_ns)
			connect_ended(task, socket, 0, 0);
		return;
	}
	read_peer(&peer, site->args[1]);
	if (peer.family == AF_UNIX) {
		peer.port = 0;
		path = site->args[1] + 2;
	} else if (socket) {
		note_peer(socket, &peer);
		if (ret == -EINPROGRESS || ret == -EINTR) {
			identify(&socket->head, RECORD_CONNECT, task);
			socket->started_ns = task->connecting_ns;
			return;
		}
		socket->started_ns = 0;
	}
	emit_connect(task, &peer, socket ? socket->type : 0, CONNECT_CALLED, site, path,
		     (u32)site->args[2] - 2);
}

static void report_bind(struct settings *settings, struct task *task, struct site *site)
{
	struct socket *socket = socket_of(site->args[0]);
	struct sockaddr_bytes local = {};
	u64 path = 0;

	read_peer(&local, site->args[1]);
	if (local.family == AF_UNIX) {
		local.port = 0;
		path = site->args[1] + 2;
		if (site->ret == -ENOENT || site->ret == -ENOTDIR)
			keep_missing(task, path);
	}
	if (bind_error(settings->file_errnos, site->ret))
		emit_connect(task, &local, socket ? socket->type : 0, CONNECT_BOUND, site, path,
			     (u32)site->args[2] - 2);
}

/* The program asks how the connection went that it had not waited for. */
static void error_asked(struct task *task, struct site *site)
{
	struct socket *socket = socket_of(site->args[0]);
	s32 error = 0;

	if (!socket || !socket->started_ns || site->args[1] != SOL_SOCKET ||
	    site->args[2] != SO_ERROR)
		return;
	if (!bpf_probe_read_user(&error, sizeof(error), (void *)site->args[3]))
		connect_ended(task, socket, error, 0);
}

static void closed(struct task *task, struct site *site)
{
	struct socket *socket = socket_of(site->args[0]);
	u64 key = socket_key(site->args[0]);

	if (site->args[0] + 1 == task->copy)
		task->copy = 0;
	if (!socket)
		return;
	/* A refusal is noticed at once, be it by poll(2) alone; who closes later gave it up. */
	if (socket->started_ns && bpf_ktime_get_boot_ns() - socket->started_ns > GIVEN_UP_NS)
		connect_ended(task, socket, 0, 1);
	sockets.delete(&key);
}

static void report_dns(struct task *task, struct sockaddr_bytes *peer, u64 data, u64 size,
		       bool answer)
{
	struct dns_record *e = storm_reserve(sizeof(*e), RECORD_DNS, task, answer, 0, EVERYTHING);

	if (!e)
		return;
	e->family = peer->family;
	e->answer = answer;
	e->port = peer->port;
	if (size > DNS_SIZE)
		size = DNS_SIZE;
	e->size = size;
	__builtin_memcpy(e->address, peer->address, 16);
	/* A whole record, or what there is before the end of the page. */
	if (bpf_probe_read_user(e->data, DNS_SIZE, (void *)data) &&
	    bpf_probe_read_user(e->data, DNS_SIZE / 4, (void *)data))
		e->size = 0;
	ring.ringbuf_submit(e, wake(false));
}

static void message_at(struct site *site, u32 index, struct piece *piece, u64 *address)
{
	struct message message = {};

	read_message(&message, site->args[1], index, site->compat);
	read_piece(piece, message.pieces, 0, site->compat);
	*address = message.name;
}

static void sent(struct task *task, struct site *site, struct piece *piece, u64 address)
{
	struct socket *socket = socket_of(site->args[0]);
	struct sockaddr_bytes peer = {};

	if (!socket)
		return;
	if (address) {
		read_peer(&peer, address);
		if (peer.family == AF_UNIX || peer.port != DNS_PORT)
			return;
		note_peer(socket, &peer);
	} else {
		peer_of(socket, &peer);
	}
	if (peer.port == DNS_PORT)
		report_dns(task, &peer, piece->base, piece->size, false);
}

/* After a successful transfer over what may be a socket to a name server. */
static void transferred(struct task *task, struct call *call, struct site *site)
{
	struct piece piece = { .base = site->args[1], .size = site->ret };
	struct sockaddr_bytes peer = {};
	struct socket *socket;
	u64 address = 0;

	switch (call->transfer) {
	case TRANSFER_SEND_TO:
		address = site->args[4];
		/* fall through */
	case TRANSFER_SEND:
		sent(task, site, &piece, address);
		return;
	case TRANSFER_SEND_MESSAGE:
		message_at(site, 0, &piece, &address);
		sent(task, site, &piece, address);
		return;
	case TRANSFER_SEND_VECTOR:
		read_piece(&piece, site->args[1], 0, site->compat);
		sent(task, site, &piece, 0);
		return;
	case TRANSFER_SEND_BATCH:
#pragma unroll
		for (int i = 0; i < BATCH; i++) {
			if (i >= site->ret)
				return;
			message_at(site, i, &piece, &address);
			sent(task, site, &piece, address);
		}
		return;
	}
	socket = socket_of(site->args[0]);
	if (!socket || socket->port != DNS_PORT)
		return;
	if (call->transfer == TRANSFER_RECEIVE_MESSAGE)
		message_at(site, 0, &piece, &address);
	peer_of(socket, &peer);
	report_dns(task, &peer, piece.base, site->ret, true);
}

static void report_transfer_error(struct task *task, struct call *call, struct site *site)
{
	struct socket *socket = socket_of(site->args[0]);
	struct sockaddr_bytes peer = {};

	if (!socket)
		return;
	if (call->transfer == TRANSFER_SEND_TO && site->args[4])
		read_peer(&peer, site->args[4]);
	else
		peer_of(socket, &peer);
	emit_connect(task, &peer, socket->type, CONNECT_IN_USE, site, 0, 0);
}

/* Files, and calls of no other sense. */

/* What a path starts from, as the program named it: an open directory, or the last chdir(2). */
static void name_base(char *out, s32 dirfd)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	u64 key = socket_key(dirfd);
	struct name *name;

	if (dirfd >= 0)
		name = opened_files.lookup(&key);
	else
		name = folders.lookup(&tgid);
	out[0] = 0;
	if (name)
		bpf_probe_read_kernel_str(out, PATH_SIZE, name->text);
}

static void report_file(struct task *task, struct call *call, struct site *site)
{
	struct file_record *e;
	u32 thing;

	if (site->ret == -ENOENT || site->ret == -ENOTDIR) {
		if (call->path_arg != NO_ARG)
			keep_missing(task, call_arg(site->args, call->path_arg));
		return;
	}
	if (!call->reported && site->ret != -EACCES)
		return;
	if (call->path_arg != NO_ARG)
		thing = thing_of_path(call_arg(site->args, call->path_arg));
	else
		thing = call_arg(site->args, call->dirfd_arg) + 1;
	e = storm_reserve(sizeof(*e), RECORD_FILE, task, site->number, -site->ret, thing);
	if (!e)
		return;
	e->head.serial = site->serial;
	e->error = -site->ret;
	e->syscall = site->number;
	e->dirfd = call->dirfd_arg == NO_ARG ? AT_FDCWD : (s32)call_arg(site->args, call->dirfd_arg);
	e->user_ns_level = 0;
	__builtin_memcpy(e->args, site->args, sizeof(e->args));
	e->limit = 0;
	e->capabilities = UNKNOWN_CAPABILITIES;
	e->path[0] = 0;
	if (call->path_arg != NO_ARG)
		bpf_probe_read_user_str(e->path, sizeof(e->path),
					(void *)call_arg(site->args, call->path_arg));
	name_base(e->cwd, e->dirfd);
	/* Its directory, limits and rights are looked up while it is there. */
	ring.ringbuf_submit(e, wake(true));
}

/* Of calls of no other sense. */
static bool is_told(struct settings *settings, struct call *call, s64 ret)
{
	bool privileged = call->sense == CALL_PRIVILEGED &&
			  (ret == -EPERM || ret == -EACCES || ret == -EAFNOSUPPORT ||
			   ret == -EADDRNOTAVAIL);

	return privileged || among(settings->call_errnos, -ret);
}

static void report_call(struct task *task, struct call *call, struct site *site)
{
	struct call_record *e;

	e = storm_reserve(sizeof(*e), RECORD_CALL, task, site->number, -site->ret, 0);
	if (!e)
		return;
	e->head.serial = site->serial;
	__builtin_memcpy(e->args, site->args, sizeof(e->args));
	e->error = -site->ret;
	e->syscall = site->number;
	e->limit = 0;
	e->usage = 0;
	e->capabilities = UNKNOWN_CAPABILITIES;
	e->user_ns_level = 0;
	e->pad = 0;
	e->path[0] = 0;
	if (call->path_arg != NO_ARG)
		bpf_probe_read_user_str(e->path, sizeof(e->path),
					(void *)call_arg(site->args, call->path_arg));
	ring.ringbuf_submit(e, wake(true));
}

/* Processes. */

static void measure(struct exec_failed_record *e, struct site *site, bool at)
{
	int zero = 0;
	struct lengths *lengths = lengths_of_call.lookup(&zero);
	char *text = (char *)measured.lookup(&zero);

	if (!lengths || !text)
		return;
	lengths->size = 0;
	lengths->strings = 0;
	lengths->longest = 0;
	add_lengths(lengths, text, at ? site->args[2] : site->args[1], site->compat);
	add_lengths(lengths, text, at ? site->args[3] : site->args[2], site->compat);
	e->size = lengths->size;
	e->strings = lengths->strings;
	e->longest = lengths->longest;
}

static void report_exec_failed(struct task *task, struct site *site, bool at)
{
	u64 path = at ? site->args[1] : site->args[0];
	struct exec_failed_record *e = storm_reserve(sizeof(*e), RECORD_EXEC_FAILED, task, at,
						     -site->ret, thing_of_path(path));

	if (!e)
		return;
	e->head.serial = site->serial;
	e->error = -site->ret;
	e->dirfd = at ? (s32)site->args[0] : AT_FDCWD;
	e->flags = at ? site->args[4] : 0;
	e->path[0] = 0;
	bpf_probe_read_user_str(e->path, sizeof(e->path), (void *)path);
	e->argc = read_argv(e->argv, at ? site->args[2] : site->args[1], site->compat);
	e->stack_limit = 0;
	e->size = 0;
	e->strings = 0;
	e->longest = 0;
	name_base(e->cwd, e->dirfd);
	if (site->ret == -E2BIG)
		measure(e, site, at);
	ring.ringbuf_submit(e, wake(true));
}

static void report_fork_failed(struct task *task, struct site *site)
{
	struct fork_failed_record *e = storm_reserve(sizeof(*e), RECORD_FORK_FAILED, task,
						     site->number, -site->ret, 0);

	if (!e)
		return;
	e->head.serial = site->serial;
	e->error = -site->ret;
	e->syscall = site->number;
	e->nproc_limit = 0;
	e->without_init = 0;
	e->pad = 0;
	__builtin_memset(&e->pids, 0, sizeof(e->pids));
	/* The cgroup that is full now may have room in a moment. */
	ring.ringbuf_submit(e, wake(true));
}

static void keep_arguments(struct site *site, bool at)
{
	u32 tid = bpf_get_current_pid_tgid();
	int zero = 0;
	struct arguments *kept, *empty = no_arguments.lookup(&zero);

	if (!empty)
		return;
	executed.update(&tid, empty);
	kept = executed.lookup(&tid);
	if (kept)
		kept->argc = read_argv(kept->argv, at ? site->args[2] : site->args[1],
				       site->compat);
}

static struct ending *ending_of(u32 tgid)
{
	struct ending none = {};

	return endings.lookup_or_try_init(&tgid, &none);
}

static void note_status(u32 tgid, s32 status)
{
	struct ending *ending = ending_of(tgid);

	if (!ending || ending->known)
		return;
	ending->known = 1;
	ending->status = status;
}

static void report_exit(struct task *task, struct ending *ending)
{
	s32 status = ending->status;
	struct exit_record *e;

	report_recent(task, status);
	e = record_reserve(sizeof(*e), RECORD_EXIT, task);
	if (!e)
		return;
	e->status = status;
	e->real_ppid = task->creator;
	e->started_ns = task->started_ns;
	e->silenced = task->silenced;
	e->pad = 0;
	ring.ringbuf_submit(e, wake(false));
}

/* Where stdout and stderr go: a shell writes what is meant for stderr to a copy of it. */
static void copied(struct task *task, struct site *site)
{
	u64 from = site->args[0], to = site->args[1];

	if (to != STDOUT && to != STDERR)
		return;
	task->together = from == STDOUT || from == STDERR ? 1 : task->together_first;
	if (to == STDERR)
		task->silenced = from + 1 == task->null_fd;
}

/* A test framework tells of failures by a copy of stderr that it made at its start. */
static void copied_aside(struct task *task, struct site *site)
{
	bool copies = site->number == NR_DUP || site->args[1] == F_DUPFD ||
		      site->args[1] == F_DUPFD_CLOEXEC;

	if (copies && (site->args[0] == STDERR || site->args[0] + 1 == task->copy))
		task->copy = site->ret + 1;
	else if (copies && site->ret + 1 == task->copy)
		task->copy = 0;
}

static void installed(struct task *task, bool strict)
{
	task->strict = strict;
	task->filtered = !strict;
}

/* As it was given to chdir(2): the reader knows what that was relative to. */
static void moved(struct site *site)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	char *text = site->name.text;

	if (bpf_probe_read_user_str(text, sizeof(site->name.text), (void *)site->args[0]) > 0)
		folders.update(&tgid, &site->name);
}

/* The name of an open file goes with its descriptor. */
static void copied_name(u64 from, u64 to)
{
	u64 key = socket_key(from), copy = socket_key(to);
	struct name *name = opened_files.lookup(&key);

	if (name)
		opened_files.update(&copy, name);
	else
		opened_files.delete(&copy);
}

static void opened(struct task *task, struct site *site, u64 path)
{
	u64 key = socket_key(site->ret);
	char *text = site->name.text;

	if (bpf_probe_read_user_str(text, sizeof(site->name.text), (void *)path) <= 0)
		return;
	opened_files.update(&key, &site->name);
	/* "/dev/null", as two numbers. */
	if (*(u64 *)text == 0x6c756e2f7665642fULL && text[8] == 'l' && !text[9])
		task->null_fd = site->ret + 1;
	else if (site->ret + 1 == task->null_fd)
		task->null_fd = 0;
}

/*
 * What is to be told of a result, by sense, each in a program of its own: all of it in one
 * would be more than the verifier looks at. They find the call in this CPU's `sites`.
 */
enum teller {
	TELL_CONNECT,
	TELL_BIND,
	TELL_EXEC,
	TELL_FORK,
	TELL_FILE,
	TELL_CALL,
	TELL_WORDS,
	TELL_VECTOR,
	TELL_TRANSFER,
	TELL_TRANSFER_ERROR,
	TELL_DESCRIPTOR,
	TELLERS,
};

BPF_PROG_ARRAY(tellers, TELLERS);

struct told {
	struct settings *settings;
	struct task *task;
	struct site *site;
	struct call *call;
};

static bool find_told(struct told *told)
{
	u32 tid = bpf_get_current_pid_tgid();
	int zero = 0;

	told->settings = settings_now();
	told->site = sites.lookup(&zero);
	told->task = tasks.lookup(&tid);
	if (!told->settings || !told->site || !told->task)
		return false;
	told->call = call_of(told->site->number);
	return told->call;
}

static bool is_output(struct told *told)
{
	return told->site->args[0] == STDOUT && !told->task->together;
}

int tell_connect(struct bpf_raw_tracepoint_args *ctx)
{
	struct told told;

	if (find_told(&told))
		report_connect(told.task, told.site);
	return 0;
}

int tell_bind(struct bpf_raw_tracepoint_args *ctx)
{
	struct told told;

	if (find_told(&told))
		report_bind(told.settings, told.task, told.site);
	return 0;
}

int tell_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct told told;

	if (find_told(&told))
		report_exec_failed(told.task, told.site, told.call->sense == CALL_EXECAT);
	return 0;
}

int tell_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct told told;

	if (find_told(&told))
		report_fork_failed(told.task, told.site);
	return 0;
}

int tell_file(struct bpf_raw_tracepoint_args *ctx)
{
	struct told told;

	if (find_told(&told))
		report_file(told.task, told.call, told.site);
	return 0;
}

int tell_call(struct bpf_raw_tracepoint_args *ctx)
{
	struct told told;

	if (find_told(&told))
		report_call(told.task, told.call, told.site);
	return 0;
}

int tell_words(struct bpf_raw_tracepoint_args *ctx)
{
	struct told told;

	if (find_told(&told))
		keep_text(told.task, told.site->args[1], told.site->ret, is_output(&told),
			  WORDS_COUNT);
	return 0;
}

int tell_vector(struct bpf_raw_tracepoint_args *ctx)
{
	struct told told;
	struct piece part;

	if (!find_told(&told))
		return 0;
	for (int i = 0; i < IOVECS; i++) {
		if (i >= told.site->args[2] ||
		    !read_piece(&part, told.site->args[1], i, told.site->compat))
			return 0;
		keep_text(told.task, part.base, part.size, is_output(&told), 2);
	}
	return 0;
}

int tell_transfer(struct bpf_raw_tracepoint_args *ctx)
{
	struct told told;

	if (find_told(&told))
		transferred(told.task, told.call, told.site);
	return 0;
}

int tell_transfer_error(struct bpf_raw_tracepoint_args *ctx)
{
	struct told told;

	if (find_told(&told))
		report_transfer_error(told.task, told.call, told.site);
	return 0;
}

int tell_descriptor(struct bpf_raw_tracepoint_args *ctx)
{
	struct told told;

	if (!find_told(&told))
		return 0;
	switch (told.site->number) {
	case NR_SOCKET:
		note_socket(told.site->ret, told.site->args[1]);
		return 0;
	case NR_GETSOCKOPT:
		error_asked(told.task, told.site);
		return 0;
	case NR_CLOSE:
		closed(told.task, told.site);
		return 0;
	case NR_PRCTL:
		if (told.site->args[0] == PR_SET_SECCOMP)
			installed(told.task, told.site->args[1] == SECCOMP_MODE_STRICT);
		return 0;
	case NR_SECCOMP:
		if (told.site->args[0] <= SECCOMP_SET_MODE_FILTER)
			installed(told.task, told.site->args[0] == SECCOMP_SET_MODE_STRICT);
		return 0;
	case NR_CHDIR:
		moved(told.site);
		return 0;
	case NR_DUP:
	case NR_FCNTL:
		copied_aside(told.task, told.site);
		return 0;
	case NR_DUP2:
	case NR_DUP3:
		copied(told.task, told.site);
		copied_name(told.site->args[0], told.site->args[1]);
		return 0;
	}
	if (told.call->change == CHANGE_OPENS)
		opened(told.task, told.site, call_arg(told.site->args, told.call->path_arg));
	return 0;
}

/* Who tells of a call that failed; TELLERS for nobody. */
static u32 teller_of_failure(struct settings *settings, struct call *call, struct site *site)
{
	bool missing = site->ret == -ENOENT || site->ret == -ENOTDIR, named;

	if (call->transfer && network_error(site->ret) && socket_of(site->args[0]))
		return TELL_TRANSFER_ERROR;
	switch (call->sense) {
	case CALL_CONNECT: return TELL_CONNECT;
	case CALL_BIND: return TELL_BIND;
	case CALL_EXEC:
	case CALL_EXECAT: return TELL_EXEC;
	case CALL_FORK: return TELL_FORK;
	case CALL_FILE:
		named = call->path_arg != NO_ARG || (s32)call_arg(site->args, call->dirfd_arg) >= 0;
		if (missing || (named && among(settings->file_errnos, -site->ret)))
			return TELL_FILE;
	}
	return is_told(settings, call, site->ret) ? TELL_CALL : TELLERS;
}

static u32 teller_of_success(struct task *task, struct call *call, struct site *site)
{
	bool spoken = site->args[0] == STDOUT || site->args[0] == STDERR ||
		      site->args[0] + 1 == task->copy;

	if (call->sense == CALL_CONNECT)
		return TELL_CONNECT;
	if (spoken && call->transfer == TRANSFER_SEND)
		return TELL_WORDS;
	if (spoken && call->transfer == TRANSFER_SEND_VECTOR)
		return TELL_VECTOR;
	if (call->transfer && socket_of(site->args[0]))
		return TELL_TRANSFER;
	switch (site->number) {
	case NR_SOCKET:
	case NR_GETSOCKOPT:
	case NR_CLOSE:
	case NR_PRCTL:
	case NR_SECCOMP:
	case NR_CHDIR:
	case NR_DUP:
	case NR_FCNTL:
	case NR_DUP2:
	case NR_DUP3: return TELL_DESCRIPTOR;
	}
	return call->change == CHANGE_OPENS ? TELL_DESCRIPTOR : TELLERS;
}

static struct site *site_of(void *regs)
{
	int zero = 0;
	struct site *site = sites.lookup(&zero);

	if (!site)
		return NULL;
	bpf_probe_read_kernel(&site->regs, sizeof(site->regs), regs);
	arguments_of(&site->regs, site->args);
	site->compat = is_compat(&site->regs);
	return site;
}

static void use_number(struct settings *settings, struct site *site, s32 nr)
{
	u32 words[6] = {}, direct;

	site->nr = nr;
	site->number = site->compat ? nr | COMPAT_CALL : nr;
	if (!site->compat || nr != settings->socketcall_nr)
		return;
	direct = direct_socket_call(site->args[0]);
	bpf_probe_read_user(words, sizeof(words), (void *)site->args[1]);
	if (direct == 369 && site->args[0] == 9)
		words[4] = 0; /* send(2) has no address */
	for (int i = 0; i < 6; i++)
		site->args[i] = words[i];
	site->number = direct | COMPAT_CALL;
}

RAW_TRACEPOINT_PROBE(sys_enter)
{
	struct settings *settings = settings_now();
	struct task *task;
	struct site *site;
	s32 nr = ctx->args[1];
	u32 number;

	if (!settings)
		return 0;
	task = current_task(settings);
	if (!task)
		return 0;
	task->entered = nr + 1;
	task->enters++;
	task->leaving = 0;
	if (nr == settings->connect_nr)
		task->connecting_ns = bpf_ktime_get_boot_ns();
	if (nr != NR_EXIT && nr != NR_EXIT_GROUP && nr != NR_EXECVE && nr != NR_EXECVEAT &&
	    nr != NR_COMPAT_EXIT && nr != NR_COMPAT_EXIT_GROUP && nr != NR_COMPAT_EXECVE &&
	    nr != NR_COMPAT_EXECVEAT)
		return 0;
	site = site_of((void *)ctx->args[0]);
	if (!site)
		return 0;
	use_number(settings, site, nr);
	number = site->number;
	task->leaving = number == NR_EXIT || number == NR_EXIT_GROUP ||
			number == (NR_COMPAT_EXIT | COMPAT_CALL) ||
			number == (NR_COMPAT_EXIT_GROUP | COMPAT_CALL);
	if (number == NR_EXECVE || number == (NR_COMPAT_EXECVE | COMPAT_CALL))
		keep_arguments(site, false);
	else if (number == NR_EXECVEAT || number == (NR_COMPAT_EXECVEAT | COMPAT_CALL))
		keep_arguments(site, true);
	else if (number == NR_EXIT_GROUP || number == (NR_COMPAT_EXIT_GROUP | COMPAT_CALL))
		note_status(task->tgid, (site->args[0] & 0xff) << 8);
	/* exit(2) ends one thread, and the process with its first one. */
	else if ((number == NR_EXIT || number == (NR_COMPAT_EXIT | COMPAT_CALL)) &&
		 task->tgid == (u32)bpf_get_current_pid_tgid())
		note_status(task->tgid, (site->args[0] & 0xff) << 8);
	return 0;
}

RAW_TRACEPOINT_PROBE(sys_exit)
{
	struct settings *settings = settings_now();
	s64 ret = ctx->args[1];
	struct task *task;
	struct site *site;
	struct call *call;
	u32 teller;

	if (!settings)
		return 0;
	task = current_task(settings);
	if (!task)
		return 0;
	site = site_of((void *)ctx->args[0]);
	if (!site)
		return 0;
	use_number(settings, site, syscall_of(&site->regs));
	site->ret = ret;
	site->serial = 0;
	if (task->serial)
		follow(task, site->number, ret);
	call = call_of(site->number);
	if (!call)
		return 0;
	/* The kernel restarts these after a signal; their end is yet to come. */
	if (ret <= -ERESTARTSYS && ret >= -ERESTART_RESTARTBLOCK) {
		task->entered = 0;
		site->ret = -EINTR;
		if (call->sense == CALL_CONNECT)
			tellers.call(ctx, TELL_CONNECT);
		return 0;
	}
	site->serial = denied(task, site);
	if (site->serial == HIDDEN)
		return 0;
	/* brk(2) has no errno: what it refuses, it leaves as it was. */
	if (site->number == NR_BRK && ret >= 0 && site->args[0] > ret)
		site->ret = -ENOMEM;
	if (site->ret < 0)
		teller = teller_of_failure(settings, call, site);
	else
		teller = teller_of_success(task, call, site);
	if (teller < TELLERS)
		tellers.call(ctx, teller);
	return 0;
}

/* In copy_process: the current task is the one that forks. */
TRACEPOINT_PROBE(task, task_newtask)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 child_tid = args->pid, tid = id;
	struct settings *settings = settings_now();
	struct task *task, *child;
	struct name *folder;

	if (!settings)
		return 0;
	task = current_task(settings);
	if (!task)
		return 0;
	tasks.update(&child_tid, task);
	child = tasks.lookup(&child_tid);
	if (!child)
		return 0;
	child->serial = 0;
	child->followed = 0;
	child->refused = 0;
	if (args->clone_flags & CLONE_THREAD)
		return 0;
	child->tgid = child_tid;
	child->creator = id >> 32;
	child->started_ns = bpf_ktime_get_boot_ns();
	child->executed = 0;
	tid = id >> 32;
	folder = folders.lookup(&tid);
	if (folder)
		folders.update(&child_tid, folder);
	return 0;
}

TRACEPOINT_PROBE(sched, sched_process_exec)
{
	u32 tgid = args->pid, old = args->old_pid;
	struct settings *settings = settings_now();
	struct task *task, *caller;
	struct arguments *kept;
	struct exec_record *e;
	u16 at = args->data_loc_filename & 0xffff;

	if (!settings)
		return 0;
	/* A thread that is not the first one takes that one's number. */
	caller = old != tgid ? tasks.lookup(&old) : NULL;
	if (caller) {
		tasks.update(&tgid, caller);
		tasks.delete(&old);
	}
	task = current_task(settings);
	if (!task)
		return 0;
	task->executed = 1;
	task->null_fd = 0;
	task->copy = 0;
	recents.delete(&tgid);
	endings.delete(&tgid);
	kept = executed.lookup(&old);
	e = record_reserve(sizeof(*e), RECORD_EXEC, task);
	if (!e)
		return 0;
	__builtin_memset(e->streams, 0, sizeof(e->streams));
	e->argc = 0;
	e->argv_size = 0;
	bpf_probe_read_kernel_str(e->path, sizeof(e->path), (void *)args + at);
	if (kept) {
		e->argc = kept->argc;
		e->argv_size = sizeof(kept->argv);
		bpf_probe_read_kernel(e->argv, sizeof(e->argv), kept->argv);
		executed.delete(&old);
	}
	ring.ringbuf_submit(e, wake(true));
	return 0;
}

TRACEPOINT_PROBE(sched, sched_process_exit)
{
	u32 tid = args->pid;
	struct task *task = tasks.lookup(&tid);
	struct ending *ending;
	u64 nothing[6] = {};
	u32 tgid;

	if (!task)
		return 0;
	tgid = task->tgid;
	ending = ending_of(tgid);
	/*
	 * No call of its own, no signal: a filter ended it. Its saved registers, which know the
	 * call, cannot be had here.
	 */
	if (!task->leaving && (task->filtered || task->strict))
		report_denial(task, UNKNOWN_CALL, nothing, 0,
			      task->strict ? ACTION_STRICT : ACTION_KILL_THREAD, 0);
	else if (task->serial)
		report_follow(task, 1);
	if (ending && tgid == tid && !(ending->killed && !ending->known)) {
		if (!ending->known)
			ending->status = task->strict ? SIGKILL : SIGSYS;
		report_exit(task, ending);
		endings.delete(&tgid);
	}
	tasks.delete(&tid);
	return 0;
}

static void fill_signal(struct signal_record *e, u32 signal, s32 code, struct task *target)
{
	e->target_pid = target->tgid;
	e->signal = signal;
	e->code = code;
	/* A timer's signal bears the number of whoever ran just then (sigaction(2)). */
	e->from_kernel = code > 0 || (code <= SI_TIMER && code >= SI_SIGIO) || signal == SIGXFSZ;
	e->target_span = target->span;
	e->limit = 0;
	e->address = 0;
	e->offset = 0;
	e->file_size = 0;
	e->mapping[0] = 0;
}

/* `pid` is a thread of the target; the current task sends. */
TRACEPOINT_PROBE(signal, signal_generate)
{
	u32 tid = args->pid, signal = args->sig;
	struct task *target = tasks.lookup(&tid), *sender;
	struct signal_record *e;
	struct ending *ending;
	u64 id = bpf_get_current_pid_tgid();

	if (!target || signal < 1 || signal > SIGNALS || HARMLESS & (1U << signal) ||
	    args->result != SIGNAL_DELIVERED)
		return 0;
	ending = ending_of(target->tgid);
	if (ending && !ending->known && ending->signal != SIGKILL) {
		ending->signal = signal;
		ending->sender = id >> 32;
		bpf_get_current_comm(ending->sender_comm, sizeof(ending->sender_comm));
	}
	if (!(ENDING_SIGNALS & (1U << signal)))
		return 0;
	e = record_reserve(sizeof(*e), RECORD_SIGNAL, target);
	if (!e)
		return 0;
	/* The sender may be part of no span. */
	tid = id;
	sender = tasks.lookup(&tid);
	e->head.span = sender ? sender->span : 0;
	e->head.ppid = sender ? sender->creator : 0;
	fill_signal(e, signal, args->code, target);
	bpf_probe_read_kernel(e->target_comm, COMM_SIZE, args->comm);
	/* The limit behind one of the kernel's is looked up while the target is there. */
	ring.ringbuf_submit(e, wake(e->from_kernel));
	return 0;
}

/* The current task takes a signal: its handler runs, or it is about to end. */
TRACEPOINT_PROBE(signal, signal_deliver)
{
	u32 tid = bpf_get_current_pid_tgid(), signal = args->sig;
	struct task *task = tasks.lookup(&tid);
	bool by_default = args->sa_handler == SIG_DFL;
	struct ending *ending;
	struct signal_record *e;
	u32 refused;

	if (!task || signal < 1 || signal > SIGNALS)
		return 0;
	if (signal == SIGSYS && args->code == SYS_SECCOMP && task->refused) {
		refused = task->refused - 1;
		task->refused = 0;
		report_denial(task, refused, task->args, task->ip,
			      by_default ? ACTION_KILL : ACTION_TRAP, 0);
	}
	ending = ending_of(task->tgid);
	if (!ending || !by_default || HARMLESS & (1U << signal))
		return 0;
	task->leaving = 1;
	if (signal == SIGKILL && !ending->known) {
		/* The others of a group are killed so as well: what was sent is what ends it. */
		ending->killed = 1;
		if (ending->signal)
			note_status(task->tgid, ending->signal);
		return 0;
	}
	if (!ending->known && CRASHES & (1U << signal)) {
		e = record_reserve(sizeof(*e), RECORD_SIGNAL, task);
		if (e) {
			fill_signal(e, signal, args->code, task);
			__builtin_memcpy(e->target_comm, e->head.comm, COMM_SIZE);
			if (ending->signal == signal && ending->sender) {
				e->head.pid = ending->sender;
				e->head.tid = ending->sender;
				__builtin_memcpy(e->head.comm, ending->sender_comm, COMM_SIZE);
			}
			ring.ringbuf_submit(e, wake(false));
		}
	}
	note_status(task->tgid, signal);
	return 0;
}

/* The victim shares the full cgroup with the current task, whose allocation found no memory. */
TRACEPOINT_PROBE(oom, mark_victim)
{
	u32 pid = args->pid;
	struct settings *settings = settings_now();
	struct task *victim = tasks.lookup(&pid);
	struct oom_record *e;

	if (!settings)
		return 0;
	if (!victim)
		victim = current_task(settings);
	if (!victim)
		return 0;
	e = record_reserve(sizeof(*e), RECORD_OOM, victim);
	if (!e)
		return 0;
	e->trigger_pid = e->head.pid;
	e->head.pid = pid;
	e->head.tid = pid;
	if (pid != e->trigger_pid) {
		e->head.ppid = 0;
		e->head.comm[0] = 0; /* user space knows it by its program */
	}
	e->total_vm_pages = 0;
	e->pad = 0;
	__builtin_memset(&e->memory, 0, sizeof(e->memory));
	ring.ringbuf_submit(e, wake(true));
	return 0;
}
