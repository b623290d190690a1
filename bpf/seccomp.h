/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Denials by a seccomp filter.
 *
 * A call that a filter refuses with an errno shows in sys_exit alone, and looks
 * there like one that the kernel itself refused. Two things tell them apart
 * without a second hook on every call (sys_enter would double the cost):
 * the kernel's bitmap of calls that the stack always allows, and, for the rest,
 * the filter programs themselves. Those leave the kernel once each, when they are
 * installed or at the first suspicion that needs them; user space evaluates them.
 */
#ifndef PROBE_SECCOMP_H
#define PROBE_SECCOMP_H

#include "calls.h"
#include "fold.h"

#define SECCOMP_SET_MODE_FILTER 1
#define PR_SET_SECCOMP 22
#define HIDDEN ((u32)-1)
#define FILTER_STACK 8
#define FILTER_PIECES 16 /* BPF_MAXINSNS / FILTER_CHUNK */

u32 last_serial = 0;

/*
 * Set by user space, with the sys_enter program attached, once a filter is seen
 * whose answer alone does not tell: a supervisor may let the call go on
 * (USER_NOTIF, TRACE), and ERRNO(0) looks like success.
 */
volatile u32 watch_enters SEC(".data.control") = 0;

/* Filters that user space has, by address. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u8);
} known_filters SEC(".maps");

/* A set bit proves that the whole filter stack always allows this call (since 5.11). */
static __always_inline bool always_allowed(struct task_struct *task, u32 nr)
{
	struct seccomp_filter *filter = BPF_CORE_READ(task, seccomp.filter);
	unsigned long word = 0;
	u32 cache;

	if (!filter || nr >= SYSCALLS || !bpf_core_field_exists(filter->cache.allow_native))
		return false;
	/* Kernels without 32-bit calls have one bitmap only. */
	if (!task_in_compat_call(task))
		cache = bpf_core_field_offset(filter->cache.allow_native);
	else if (bpf_core_field_exists(filter->cache.allow_compat))
		cache = bpf_core_field_offset(filter->cache.allow_compat);
	else
		return false;
	bpf_probe_read_kernel(&word, sizeof(word),
			      (void *)filter + cache + (nr / 64) * sizeof(word));
	return word & (1UL << (nr % 64));
}

/* Global functions are verified once each, not at every call; those take numbers only. */

struct cut_filter {
	u64 filter;
	u64 previous;
	u64 instructions;
	u32 length;
	u32 lost; /* a piece found no room */
};

/* One a CPU: bpf_loop's steps do not share a stack. */
SCRATCH(cut_filter);

STEP filter_piece(u32 i, void *context)
{
	struct cut_filter *cut = scratch_cut_filter();
	struct filter_record *e;

	if (!cut || i * FILTER_CHUNK >= cut->length)
		return 1;
	e = record_reserve(sizeof(*e), RECORD_FILTER, current_task());
	if (!e) {
		cut->lost = 1;
		return 1;
	}
	e->filter = cut->filter;
	e->previous = cut->previous;
	e->length = cut->length;
	e->offset = i * FILTER_CHUNK;
	/* The last piece reads past the end of the program; its length tells. */
	bpf_probe_read_kernel(e->instructions, sizeof(e->instructions),
			      (void *)cut->instructions + i * sizeof(e->instructions));
	bpf_ringbuf_submit(e, wake(false));
	return 0;
}

/* Zero where a piece found no room. */
__noinline int report_filter(u64 address)
{
	struct seccomp_filter *filter = (struct seccomp_filter *)address;
	struct sock_fprog_kern *program = BPF_CORE_READ(filter, prog, orig_prog);
	struct cut_filter *cut = scratch_cut_filter();

	if (!cut)
		return 0;
	cut->filter = address;
	cut->previous = (u64)BPF_CORE_READ(filter, prev);
	cut->instructions = (u64)BPF_CORE_READ(program, filter);
	cut->length = BPF_CORE_READ(program, len);
	cut->lost = 0;
	repeat(FILTER_PIECES, filter_piece, NULL);
	return !cut->lost;
}

__noinline int report_filters(void)
{
	struct task_struct *task = current_task();
	struct seccomp_filter *filter = BPF_CORE_READ(task, seccomp.filter);
	u64 key;
	u8 one = 1;

	for (int i = 0; i < FILTER_STACK && filter; i++) {
		key = (u64)filter;
		if (!bpf_map_lookup_elem(&known_filters, &key) && report_filter(key))
			bpf_map_update_elem(&known_filters, &key, &one, BPF_ANY);
		filter = BPF_CORE_READ(filter, prev);
	}
	return 0;
}

static __always_inline void report_follow(struct task_struct *task, struct task_state *state,
					  u32 ended)
{
	struct follow_record *e = record_reserve(sizeof(*e), RECORD_FOLLOW, task);

	if (!e)
		return;
	__builtin_memcpy(e->calls, state->next, sizeof(e->calls));
	e->total = state->calls;
	e->head.serial = state->serial;
	e->pad = 0;
	e->ended = ended;
	bpf_ringbuf_submit(e, wake(false));
}

/* Returns the serial that ties other records of the same call to this one. */
__noinline u32 report_denial(u32 nr, u32 action, s64 ret, u32 entered)
{
	struct task_struct *task = current_task();
	struct pt_regs *regs = current_regs();
	struct task_state *state;
	struct seccomp_record *e;
	bool compat = task_in_compat_call(task);
	u32 number = call_number(task, nr);
	struct call *call = call_of(number);
	u32 serial, count;

	count = fold(RECORD_SECCOMP, number, action == ACTION_RESULT ? -ret : -action, 0);
	if (!count)
		return HIDDEN;
	serial = next_serial(&last_serial);
	e = record_reserve(sizeof(*e), RECORD_SECCOMP, task);
	if (!e)
		return 0;
	regs_args(regs, compat, e->args);
	e->path[0] = 0;
	if (call && call->path_arg != NO_ARG)
		bpf_probe_read_user_str(e->path, sizeof(e->path),
					(void *)call_arg(e->args, call->path_arg));
	e->head.serial = serial;
	e->head.count = count;
	e->ip = regs_ip(regs);
	e->filter = (u64)BPF_CORE_READ(task, seccomp.filter);
	e->ret = ret;
	e->syscall = nr;
	e->compat = compat;
	e->action = action;
	e->entered = entered;
	bpf_ringbuf_submit(e, wake(false));
	state = task_state_create(task);
	if (state) {
		if (state->serial && state->followed && state->followed < FOLLOW_UPS)
			report_follow(task, state, 0);
		state->serial = serial;
		state->followed = 0;
		state->calls = 0;
	}
	return serial;
}

/* What does the thread do after the denial? */
static __always_inline void follow(struct task_struct *task, struct task_state *state, u32 nr,
				   s64 ret)
{
	u32 at = state->followed;

	state->calls++;
	if (at >= FOLLOW_UPS)
		return;
	state->next[at].syscall = call_number(task, nr);
	state->next[at].ret = ret > 0x7fffffff ? 0x7fffffff : ret; /* an address */
	state->followed = at + 1;
	if (at + 1 == FOLLOW_UPS)
		report_follow(task, state, 0);
}

/* prctl(2) does much else, and runtimes call it a hundred times when they drop capabilities. */
static __always_inline bool has_installed(struct task_struct *task, s32 nr, s64 ret)
{
	bool compat = task_in_compat_call(task);
	s32 prctl_nr = compat ? settings.compat_prctl_nr : settings.prctl_nr;
	u64 args[6];

	if (ret < 0)
		return false;
	if (nr != prctl_nr && nr != (compat ? settings.compat_seccomp_nr : settings.seccomp_nr))
		return false;
	regs_args(current_regs(), compat, args);
	return (u32)args[0] == (nr == prctl_nr ? PR_SET_SECCOMP : SECCOMP_SET_MODE_FILTER);
}

/* A filter installed where an earlier one was freed must not pass for it. */
static __always_inline void seccomp_installed(struct task_struct *task)
{
	u64 key = (u64)BPF_CORE_READ(task, seccomp.filter);
	struct task_state *state;

	bpf_map_delete_elem(&known_filters, &key);
	report_filters();
	if (watch_enters) {
		state = task_state_create(task);
		if (state)
			state->enters++; /* from the next call on, an enter would be seen */
	}
}

/* KILL and TRAP leave no result, but a signal on its way, and that one tells. */
static __always_inline bool is_rolled_back(struct task_struct *task, s64 ret)
{
	return (u32)ret == (u32)regs_rollback(current_regs()) && is_pending(task, SIGSYS);
}

/*
 * Could this result be a filter's? Returns the serial of the suspicion, 0 where it
 * is none, HIDDEN where it is one of a storm: then no other sense tells it either.
 * A function of its own because all frames of a call chain share 512 bytes of stack.
 */
__noinline u32 seccomp_exit(s32 nr, s64 ret)
{
	struct task_struct *task = current_task();
	struct task_state *state = task_state(task);
	u32 entered = ENTERED_UNKNOWN;

	if (state && state->serial)
		follow(task, state, nr, ret);
	if (has_installed(task, nr, ret)) {
		seccomp_installed(task);
		return 0;
	}
	if (is_rolled_back(task, ret))
		return HIDDEN;
	if ((ret >= 0 && !watch_enters) || always_allowed(task, nr))
		return 0;
	if (state && state->enters) {
		entered = state->entered == nr + 1 ? ENTERED_YES : ENTERED_NO;
		state->entered = 0;
	}
	if (entered == ENTERED_YES || (ret >= 0 && entered == ENTERED_UNKNOWN))
		return 0;
	report_filters();
	return report_denial(nr, ACTION_RESULT, ret, entered);
}

static __always_inline void seccomp_enter(struct task_struct *task, int nr)
{
	struct task_state *state;

	if (!field(task, seccomp.mode) || nr < 0 || always_allowed(task, nr))
		return;
	state = task_state_create(task);
	if (!state)
		return;
	state->entered = nr + 1;
	state->enters++;
}

static __always_inline void seccomp_signal(struct task_struct *task, struct kernel_siginfo *info)
{
	/* A kill resets the handler before it sends the signal (force_sig_seccomp). */
	report_denial(BPF_CORE_READ(info, _sifields._sigsys._syscall),
		      is_handled(task, SIGSYS) ? ACTION_TRAP : ACTION_KILL, 0, ENTERED_NO);
}

/*
 * KILL_THREAD among other threads and strict mode end in do_exit, with no signal to see;
 * before 5.16 so do all kills (commit 307d522f5eb8). Whoever ends by a signal, be it one
 * that another thread's end sent, is marked as such.
 */
static __always_inline void seccomp_thread_exit(struct task_struct *task)
{
	struct task_state *state = task_state(task);
	bool by_itself = !(task->flags & PF_SIGNALED);
	u32 action = 0;

	if (by_itself && (task->exit_code & 0x7f) == SIGSYS)
		action = ACTION_KILL_THREAD;
	else if (by_itself && task->exit_code == SIGKILL)
		action = ACTION_STRICT;
	if (action)
		report_denial(regs_syscall(current_regs()), action, 0, ENTERED_NO);
	else if (state && state->serial)
		report_follow(task, state, 1);
}

#endif
