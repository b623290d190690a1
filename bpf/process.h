/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Processes: programs started, starts and forks that failed, exits. */
#ifndef PROBE_PROCESS_H
#define PROBE_PROCESS_H

#include "cgroup.h"
#include "recent.h"
#include "seccomp.h"
#include "strings.h"

#define VARIABLES 256 /* that are looked at */
#define VARIABLE_SIZE 4096

#define TEST_VARIABLE "PROBE_TEST="
#define RUN_VARIABLE "PROBE_RUN="
#define LENGTH(text) (sizeof(text) - 1)

struct names {
	char variable[VARIABLE_SIZE];
	char test[NAME_SIZE];
	char run[NAME_SIZE];
};

SCRATCH(names);

/* The compiler would call memcmp, which is not there. */
static __always_inline bool starts_with(const char *text, const char *prefix, u32 length)
{
	u8 different = 0;

	for (u32 i = 0; i < length; i++)
		different |= text[i] ^ prefix[i];
	return !different;
}

/* Fills the scratch's names; whether a test is named. A global function, verified by itself. */
__noinline int read_names(u64 at, u64 end)
{
	struct names *names = scratch_names();
	char *text;
	long size;

	if (!names)
		return 0;
	names->test[0] = 0;
	names->run[0] = 0;
	text = names->variable;
	for (u32 i = 0; i < VARIABLES && at < end; i++) {
		size = bpf_probe_read_user_str(text, VARIABLE_SIZE, (void *)at);
		if (size <= 0)
			break;
		if (starts_with(text, TEST_VARIABLE, LENGTH(TEST_VARIABLE)))
			bpf_probe_read_user_str(names->test, NAME_SIZE,
						(void *)(at + LENGTH(TEST_VARIABLE)));
		else if (starts_with(text, RUN_VARIABLE, LENGTH(RUN_VARIABLE)))
			bpf_probe_read_user_str(names->run, NAME_SIZE,
						(void *)(at + LENGTH(RUN_VARIABLE)));
		at += size;
	}
	return names->test[0] != 0;
}

/* A span for a program that is part of none, where its environment names a test. */
static __always_inline void begin_named(struct task_struct *task)
{
	u64 start = BPF_CORE_READ(task, mm, env_start), end = BPF_CORE_READ(task, mm, env_end);
	struct task_state *state;
	struct named_record *e;
	struct names *names;

	if (span_of(task) != NOBODYS_SPAN || !read_names(start, end))
		return;
	names = scratch_names();
	state = task_state_create(task);
	if (!names || !state)
		return;
	/* User space numbers its spans from the boot time at its own start, one by one. */
	state->span = (bpf_ktime_get_boot_ns() & ~0xffULL) | (bpf_get_smp_processor_id() & 0xff);
	e = record_reserve(sizeof(*e), RECORD_NAMED, task);
	if (!e) {
		state->span = 0;
		return;
	}
	__builtin_memcpy(e->test, names->test, NAME_SIZE);
	__builtin_memcpy(e->run, names->run, NAME_SIZE);
	bpf_ringbuf_submit(e, wake(false));
}

static __always_inline void report_exec(struct task_struct *task, struct linux_binprm *bprm)
{
	struct exec_record *e;
	u64 start, size;
	u32 tgid = task->tgid;

	/* Another program runs from here on: what the last one missed is of no interest. */
	bpf_map_delete_elem(&recents, &tgid);
	e = record_reserve(sizeof(*e), RECORD_EXEC, task);
	if (!e)
		return;
	stream_of(task, STDIN, &e->streams[0]);
	stream_of(task, STDOUT, &e->streams[1]);
	e->argc = BPF_CORE_READ(bprm, argc);
	e->argv_size = 0;
	bpf_probe_read_kernel_str(e->path, sizeof(e->path), BPF_CORE_READ(bprm, filename));
	start = BPF_CORE_READ(task, mm, arg_start);
	size = BPF_CORE_READ(task, mm, arg_end) - start;
	at_most(size, ARGV_SIZE);
	if (!bpf_probe_read_user(e->argv, size, (void *)start))
		e->argv_size = size;
	/* A mount namespace is looked into while its process lives. */
	bpf_ringbuf_submit(e, wake(e->head.mnt_ns != settings.mnt_ns));
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, char[STRING_BUFFER]); /* only lengths are of interest */
} measured SEC(".maps");

SCRATCH(lengths);

/* Adds to the scratch's lengths. A global function, so that it is verified by itself. */
__noinline int measure(u64 vector, u32 compat)
{
	u32 zero = 0;
	struct lengths *lengths = scratch_lengths();
	char *text = bpf_map_lookup_elem(&measured, &zero);

	if (text && lengths)
		add_lengths(lengths, text, vector, compat);
	return 0;
}

static __always_inline void report_exec_failed(struct task_struct *task, u64 args[6], bool at,
					       bool compat, s64 ret, u32 serial)
{
	u64 path = at ? args[1] : args[0];
	struct exec_failed_record *e;
	struct lengths *lengths;

	e = storm_reserve(sizeof(*e), RECORD_EXEC_FAILED, task, at, -ret, path_thing(path));
	if (!e)
		return;
	e->head.serial = serial;
	e->error = -ret;
	e->dirfd = at ? (s32)args[0] : AT_FDCWD;
	e->flags = at ? args[4] : 0;
	e->path[0] = 0;
	bpf_probe_read_user_str(e->path, sizeof(e->path), (void *)path);
	/* The arguments of a call that failed are still where the caller put them. */
	e->argc = read_argv(e->argv, at ? args[2] : args[1], compat);
	e->stack_limit = task_limit(task, RLIMIT_STACK);
	e->size = 0;
	e->strings = 0;
	e->longest = 0;
	lengths = scratch_lengths();
	if (ret == -E2BIG && lengths) {
		__builtin_memset(lengths, 0, sizeof(*lengths));
		measure(at ? args[2] : args[1], compat);
		measure(at ? args[3] : args[2], compat);
		e->size = lengths->size;
		e->strings = lengths->strings;
		e->longest = lengths->longest;
	}
	base_text(task, e->path, e->dirfd, e->cwd);
	/* The reason is on the disk, so whoever looks must look at once. */
	bpf_ringbuf_submit(e, wake(true));
}

static __always_inline void report_fork_failed(struct task_struct *task, u32 nr, s64 ret,
					       u32 serial)
{
	struct fork_failed_record *e;

	e = storm_reserve(sizeof(*e), RECORD_FORK_FAILED, task, nr, -ret, 0);
	if (!e)
		return;
	e->head.serial = serial;
	e->error = -ret;
	e->syscall = nr;
	e->nproc_limit = task_limit(task, RLIMIT_NPROC);
	/* alloc_pid() answers ENOMEM once disable_pid_allocation() has cleared the bit. */
	e->without_init = !(BPF_CORE_READ(task, nsproxy, pid_ns_for_children, pid_allocated) &
			    PIDNS_ADDING);
	e->pad = 0;
	pids_limit(task, &e->pids);
	bpf_ringbuf_submit(e, wake(false));
}

static __always_inline void report_exit(struct task_struct *task)
{
	struct exit_record *e;
	s32 status;

	/* task_struct.exit_code is set by now; a group exit's code overrides it (wait_task_zombie). */
	if (BPF_CORE_READ(task, signal, flags) & SIGNAL_GROUP_EXIT)
		status = BPF_CORE_READ(task, signal, group_exit_code);
	else
		status = BPF_CORE_READ(task, group_leader, exit_code);
	report_recent(task, status);
	e = record_reserve(sizeof(*e), RECORD_EXIT, task);
	if (!e)
		return;
	e->status = status;
	e->real_ppid = task_real_ppid(task);
	e->started_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	e->silenced = is_null_device(file_of(task, STDERR));
	e->pad = 0;
	bpf_ringbuf_submit(e, wake(false));
}

/* Not always who forked it: runc makes its children its siblings (CLONE_PARENT, clone(2)). */
static __always_inline u32 parent_at_birth(struct task_struct *parent, struct task_struct *child)
{
	struct task_struct *real = child->real_parent;

	return span_of(real) == span_of(parent) ? task_real_ppid(child) : task_tgid(parent);
}

static __always_inline void inherit(struct task_struct *parent, struct task_struct *child)
{
	struct task_state *from = task_state(parent), *to;
	bool thread = BPF_CORE_READ(parent, signal) == BPF_CORE_READ(child, signal);

	if (!from || (!from->span && !from->enters))
		return;
	to = task_state_create(child);
	if (!to)
		return;
	to->span = from->span;
	/* The child returns from a call that it never entered. */
	to->entered = from->entered;
	to->enters = from->enters;
	to->creator = thread ? from->creator : parent_at_birth(parent, child);
}

static __always_inline void report_namespace(struct task_struct *task, u32 old)
{
	struct namespace_record *e = record_reserve(sizeof(*e), RECORD_NAMESPACE, task);

	if (!e)
		return;
	e->old_mnt_ns = old;
	e->pad = 0;
	bpf_ringbuf_submit(e, wake(true));
}

#endif
