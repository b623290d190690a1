// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The programs, one a hook. Each hands over to a sense; a hook that kernels
 * spell differently has one program a spelling, and the loader keeps the first
 * that the running kernel accepts (probe/engine/core.py).
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "connect.h"
#include "files.h"
#include "memory.h"
#include "process.h"
#include "seccomp.h"
#include "signals.h"
#include "traffic.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* A global function is verified once, by itself; those take numbers only. */
__noinline int other_result(s64 ret, u32 number, u32 serial)
{
	struct task_struct *task = current_task();
	struct call *call;
	u64 args[6];

	number = read_call(number, args);
	call = call_of(number);
	if (!call)
		return 0;
	if (call->transfer && network_error(ret) &&
	    report_transfer_error(task, call, args, ret, serial))
		return 0;
	switch (call->sense) {
	case CALL_CONNECT:
		report_connect(task, args, ret, serial);
		break;
	case CALL_BIND:
		report_bind(task, args, ret, serial);
		break;
	case CALL_EXEC:
	case CALL_EXECAT:
		if (ret < 0)
			report_exec_failed(task, args, call->sense == CALL_EXECAT,
					   number & COMPAT_CALL, ret, serial);
		break;
	case CALL_FORK:
		if (ret < 0)
			report_fork_failed(task, number, ret, serial);
		break;
	case CALL_FILE:
		if (ret < 0 && concerns_file(call, args, ret)) {
			report_file(task, call, number, args, ret, serial);
			break;
		}
		/* fall through */
	default:
		report_call(call, task, number, args, ret, serial);
	}
	return 0;
}

static __always_inline void on_write(struct pt_regs *regs, bool vector, s64 ret)
{
	u64 fd = regs_arg(regs, 0);

	if (is_spoken(fd))
		keep_words(regs_arg(regs, 1), vector ? regs_arg(regs, 2) : ret,
			   vector ? PIECES : WHOLE, fd);
}

#define MAX_RW_COUNT 0x7ffff000

/* What a regular file that took less than it was given would say next; 0 where it took all. */
static __always_inline s64 cut_short(u64 fd, u64 count, s64 ret)
{
	struct task_struct *task = current_task();
	struct file *file;

	if ((u64)ret >= count || count > MAX_RW_COUNT)
		return 0;
	file = file_of(task, fd);
	if (file_type(file) != S_IFREG)
		return 0;
	return BPF_CORE_READ(file, f_pos) >= task_limit(task, RLIMIT_FSIZE) ? -EFBIG : -ENOSPC;
}

/* Most calls end well, and of most of those nothing is to be told. */
static __always_inline bool of_interest(u32 nr)
{
	return nr < SYSCALLS && settings.successes[nr / 64] & (1ULL << (nr % 64));
}

static __always_inline int success(u32 nr, s64 ret, u32 serial)
{
	struct pt_regs *regs = current_regs();

	if (nr == settings.connect_nr)
		return other_result(ret, nr, serial);
	if (nr == settings.write_nr || nr == settings.writev_nr) {
		s64 error = nr == settings.write_nr
				    ? cut_short(regs_arg(regs, 0), regs_arg(regs, 2), ret)
				    : 0;

		on_write(regs, nr == settings.writev_nr, ret);
		if (error)
			return other_result(error, nr, serial);
	}
	/* brk(2) has no errno: what it refuses, it leaves as it was. */
	else if (nr == settings.brk_nr)
		return regs_arg(regs, 0) > (u64)ret ? other_result(-ENOMEM, nr, serial) : 0;
	else
		changed_files(nr, ret);
	if (names_asked || nr == settings.sendto_nr || nr == settings.sendmsg_nr ||
	    nr == settings.sendmmsg_nr)
		transferred(nr, ret);
	return 0;
}

/* 32-bit calls are few, so they go by the table alone. True for one that other_result tells. */
__noinline int compat_success(u32 number, s64 ret)
{
	u64 args[6];
	struct call *call = call_of(read_call(number, args));

	if (!call)
		return 0;
	if (call->sense == CALL_CONNECT)
		return true;
	if (call->transfer == TRANSFER_SEND && is_spoken(args[0]))
		keep_words(args[1], ret, WHOLE, args[0]);
	if (call->transfer == TRANSFER_SEND_VECTOR && is_spoken(args[0]))
		keep_words(args[1], args[2], COMPAT_PIECES, args[0]);
	changed_files(number, ret);
	return false;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = current_task();
	int nr = regs_syscall(regs);
	u32 serial = 0;

	/* rt_sigreturn(2) leaves no number, and what it puts back is the result of no call. */
	if (nr < 0)
		return 0;
	/*
	 * The kernel restarts these after a signal; their end is yet to come. But if the
	 * signal kills, a connection that was being made is given up.
	 */
	if (ret <= -ERESTARTSYS && ret >= -ERESTART_RESTARTBLOCK)
		return nr == settings.connect_nr ? other_result(-EINTR, nr, 0) : 0;
	if (field(task, seccomp.mode))
		serial = seccomp_exit(nr, ret);
	if (serial == HIDDEN)
		return 0;
	if (task_in_compat_call(task))
		return ret < 0 || compat_success(nr | COMPAT_CALL, ret)
			       ? other_result(ret, nr | COMPAT_CALL, serial)
			       : transferred(nr | COMPAT_CALL, ret);
	if (ret >= 0)
		return of_interest(nr) || names_asked ? success(nr, ret, serial) : 0;
	return other_result(ret, nr, serial);
}

/* Attached on demand (watch_enters). */
SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	seccomp_enter(current_task(), nr);
	return 0;
}

/* In copy_process, so that it sees the workers of io_uring as well. */
SEC("tp_btf/task_newtask")
int BPF_PROG(process_fork, struct task_struct *child)
{
	struct task_struct *parent = current_task();
	u32 old = BPF_CORE_READ(parent, nsproxy, mnt_ns, ns.inum);

	inherit(parent, child);
	if (BPF_CORE_READ(child, nsproxy, mnt_ns, ns.inum) != old)
		report_namespace(child, old);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	if (settings.everyone)
		begin_named(task);
	report_exec(task, bprm);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	if (task->flags & PF_KTHREAD)
		return 0;
	if (task->seccomp.mode)
		seccomp_thread_exit(task);
	if (BPF_CORE_READ(task, signal, live.counter) == 0)
		report_exit(task);
	task_state_end(task);
	return 0;
}

/* bpf_find_vma came with 5.17 (commit 7c7e3d31e785). */
SEC("tp_btf/signal_generate")
int BPF_PROG(signal_with_mapping, int signal, struct kernel_siginfo *info,
	     struct task_struct *task)
{
	return on_signal(signal, info, task, true);
}

SEC("tp_btf/signal_generate")
int BPF_PROG(signal_alone, int signal, struct kernel_siginfo *info, struct task_struct *task)
{
	return on_signal(signal, info, task, false);
}

/* 6.10 replaced the pid by the task (commit 72ba14deb40a). */
SEC("tp_btf/mark_victim")
int BPF_PROG(oom_victim_task, struct task_struct *victim)
{
	/* A load of this kind the verifier accepts from a task only: of a number it refuses it. */
	if (victim->tgid)
		report_oom(victim);
	return 0;
}

SEC("tp_btf/mark_victim")
int BPF_PROG(oom_victim_pid, int pid)
{
	report_oom_pid(pid);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(sock_state, struct sock *sk, int old_state, int new_state)
{
	connect_state(sk, old_state, new_state);
	return 0;
}
