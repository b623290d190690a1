/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Whose task is it: scope, span, identity; and the ring that records leave by. */
#ifndef PROBE_TASK_H
#define PROBE_TASK_H

#include "arch.h"
#include "bounds.h"
#include "events.h"
#include <bpf/bpf_helpers.h>

#define RING_SIZE (1 << 21) /* a burst of four hundred refusals of a file each */
#define PID_LEVELS 8
#define SYSCALLS 512

const volatile struct settings settings SEC(".rodata.settings") = {};

/*
 * What is remembered of one thread. The span is set from user space through a
 * pidfd and handed down at fork; the rest follows the thread after a denial.
 */
struct task_state {
	u64 span;
	u64 calls; /* since the denial */
	struct follow_up next[FOLLOW_UPS];
	u32 creator;  /* the process that forked this one */
	u32 serial;   /* of the denial that is being followed; 0: none */
	u32 followed; /* how many of `next` are filled */
	u32 entered;  /* number of the call in progress, plus one */
	u32 enters;   /* how many were seen: with none, nothing is known of the first */
	u32 pad;
};

struct {
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(value, struct task_state);
#ifdef LEGACY
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32); /* the thread, as the probe's pid namespace numbers it */
#else
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__type(key, int);
#endif
} tasks SEC(".maps");

/*
 * One `struct name` a CPU, and scratch_name() that finds it: what is too large for the stack, or
 * shared by bpf_loop's steps. Programs in process context are not preempted by each other.
 */
#define SCRATCH(name)                                                                              \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                           \
		__uint(max_entries, 1);                                                            \
		__type(key, u32);                                                                  \
		__type(value, struct name);                                                        \
	} scratch_of_##name SEC(".maps");                                                          \
	static __always_inline struct name *scratch_##name(void)                                   \
	{                                                                                          \
		u32 zero = 0;                                                                      \
                                                                                                   \
		return bpf_map_lookup_elem(&scratch_of_##name, &zero);                             \
	}

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_SIZE);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct loss_key);
	__type(value, u64);
} losses SEC(".maps");

/* The number of `pid` in the probe's pid namespace; 0 where it is not visible there. */
__noinline u32 pid_in_scope(u64 address)
{
	struct pid *pid = (struct pid *)address;
	struct upid upid;
	u32 level;

	if (!pid)
		return 0;
	level = BPF_CORE_READ(pid, level);
	for (u32 i = 0; i < PID_LEVELS; i++) {
		if (i > level)
			break;
		bpf_core_read(&upid, sizeof(upid),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      i * bpf_core_type_size(struct upid));
		if (!settings.pid_ns || BPF_CORE_READ(upid.ns, ns.inum) == settings.pid_ns)
			return upid.nr;
	}
	return 0;
}

/* The number of `pid` in the namespace that it was made in. */
static __always_inline u32 innermost(u64 address)
{
	struct pid *pid = (struct pid *)address;
	u32 level = BPF_CORE_READ(pid, level);
	struct upid upid;

	bpf_core_read(&upid, sizeof(upid),
		      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
			      level * bpf_core_type_size(struct upid));
	return upid.nr;
}

static __always_inline u32 task_tid(struct task_struct *task)
{
	return pid_in_scope((u64)BPF_CORE_READ(task, thread_pid));
}

#ifdef LEGACY

/* A new map value would take a fifth of the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct task_state);
} fresh_state SEC(".maps");

static __always_inline struct task_state *task_state(struct task_struct *task)
{
	u32 tid = task_tid(task);

	return bpf_map_lookup_elem(&tasks, &tid);
}

static __always_inline struct task_state *task_state_create(struct task_struct *task)
{
	u32 tid = task_tid(task), zero = 0;
	struct task_state *fresh = bpf_map_lookup_elem(&fresh_state, &zero);

	if (tid && fresh)
		bpf_map_update_elem(&tasks, &tid, fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&tasks, &tid);
}

static __always_inline void task_state_end(struct task_struct *task)
{
	u32 tid = task_tid(task);

	bpf_map_delete_elem(&tasks, &tid);
}

#else

static __always_inline struct task_state *task_state(struct task_struct *task)
{
	return bpf_task_storage_get(&tasks, task, NULL, 0);
}

static __always_inline struct task_state *task_state_create(struct task_struct *task)
{
	return bpf_task_storage_get(&tasks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* The storage goes with its task. */
static __always_inline void task_state_end(struct task_struct *task)
{
}

#endif

static __always_inline u32 task_tgid(struct task_struct *task)
{
	return pid_in_scope((u64)BPF_CORE_READ(task, group_leader, thread_pid));
}

static __always_inline u32 task_real_ppid(struct task_struct *task)
{
	return pid_in_scope((u64)BPF_CORE_READ(task, real_parent, group_leader, thread_pid));
}

static __always_inline u32 task_session(struct task_struct *task)
{
	void *signal = BPF_CORE_READ(task, signal);
	u32 type = bpf_core_enum_value(enum pid_type, PIDTYPE_SID);
	struct pid *leader = NULL;

	bpf_probe_read_kernel(&leader, sizeof(leader),
			      signal + bpf_core_field_offset(struct signal_struct, pids) +
				      type * sizeof(leader));
	return pid_in_scope((u64)leader);
}

static __always_inline u64 task_limit(struct task_struct *task, u32 resource)
{
	void *signal = BPF_CORE_READ(task, signal);
	u64 limit = 0;

	bpf_probe_read_kernel(&limit, sizeof(limit),
			      signal + bpf_core_field_offset(struct signal_struct, rlim) +
				      resource * bpf_core_type_size(struct rlimit));
	return limit;
}

/* Whether the task has a handler of its own for the signal. */
static __always_inline bool is_handled(struct task_struct *task, int signal)
{
	void *actions = BPF_CORE_READ(task, sighand), *handler = NULL;

	bpf_probe_read_kernel(&handler, sizeof(handler),
			      actions + bpf_core_field_offset(struct sighand_struct, action) +
				      (signal - 1) * bpf_core_type_size(struct k_sigaction) +
				      bpf_core_field_offset(struct k_sigaction, sa.sa_handler));
	return handler;
}

/* Whether a signal that was sent to this very thread waits for it. */
static __always_inline bool is_pending(struct task_struct *task, int signal)
{
	return BPF_CORE_READ(task, pending.signal.sig[0]) & (1UL << (signal - 1));
}

static __always_inline u64 task_capabilities(struct task_struct *task)
{
	const struct cred *cred = BPF_CORE_READ(task, cred);
	u64 capabilities = 0;

	bpf_probe_read_kernel(&capabilities, sizeof(capabilities),
			      (void *)cred + bpf_core_field_offset(struct cred, cap_effective));
	return capabilities;
}

/* Where everybody is watched, those without a span have one together. */
static __always_inline u64 span_of(struct task_struct *task)
{
	struct task_state *state = task_state(task);

	if (state && state->span)
		return state->span;
	return settings.everyone ? NOBODYS_SPAN : 0;
}

/* What a function takes that is verified by itself: no pointer that the verifier trusts. */
static __always_inline u64 as_number(const void *pointer)
{
	u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &pointer);
	return number;
}

static __always_inline u64 described(struct task_struct *task)
{
#ifdef LEGACY
	return (u64)task; /* describe() is no function there, and the stack has no room */
#else
	return as_number(task);
#endif
}

/*
 * What does not come of the state. Verified once, by itself, where a function of that kind may
 * take memory (since 5.12, commit e5069b9c23b3).
 */
#ifdef LEGACY
static __always_inline
#else
__noinline
#endif
int describe(struct record *head, u64 address)
{
	struct task_struct *task = (struct task_struct *)address;

	if (!head)
		return 0;
	head->pid = task_tgid(task);
	if (!head->pid || head->pid == settings.self_tgid)
		return 0;
	head->time_ns = bpf_ktime_get_boot_ns();
	head->tid = task_tid(task);
	head->ppid = task_real_ppid(task);
	head->serial = 0;
	head->count = 1;
	head->inner_pid = innermost((u64)BPF_CORE_READ(task, group_leader, thread_pid));
	head->session = task_session(task);
	head->uid = BPF_CORE_READ(task, cred, euid.val);
	head->mnt_ns = BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum);
	BPF_CORE_READ_STR_INTO(&head->comm, task, comm);
	return 1;
}

/* False where the task is part of no span, or out of scope. */
static __always_inline bool identify(struct record *head, u32 kind, struct task_struct *task)
{
	struct task_state *state = task_state(task);
	u64 span = span_of(task);

	if (!span || !describe(head, described(task)))
		return false;
	head->kind = kind;
	head->span = span;
	if (state && state->creator)
		head->ppid = state->creator;
	return true;
}

static __noinline void count_loss(u64 span, u32 kind)
{
	struct loss_key key = { .span = span, .kind = kind };
	u64 one = 1, *count;

	count = bpf_map_lookup_elem(&losses, &key);
	if (!count) {
		if (!bpf_map_update_elem(&losses, &key, &one, BPF_NOEXIST))
			return;
		count = bpf_map_lookup_elem(&losses, &key);
		if (!count)
			return;
	}
	__sync_fetch_and_add(count, 1);
}

/*
 * Waking the reader costs more than all the rest of a record, so it looks by itself
 * now and then (probe/watch.py); it is woken when something must be looked at while
 * it is there, and when the ring fills.
 */
static __always_inline u64 wake(bool urgent)
{
	if (urgent || bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > RING_SIZE / 4)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

/* A place in the ring, its head filled in; NULL when out of scope or full (counted). */
static __always_inline void *record_reserve(u64 size, u32 kind, struct task_struct *task)
{
	struct record head = {};
	struct record *place;

	if (!identify(&head, kind, task))
		return NULL;
	/* What nobody asked for must not cost a span its events: half of the ring is for those. */
	if (head.span == NOBODYS_SPAN &&
	    bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > RING_SIZE / 2) {
		count_loss(head.span, kind);
		return NULL;
	}
	place = bpf_ringbuf_reserve(&ring, size, 0);
	if (!place) {
		count_loss(head.span, kind);
		return NULL;
	}
	*place = head;
	return place;
}

#endif
