/*
 * odd WHAT: what looks like a denial by seccomp and is none, or is one in an odd way.
 * A filter is installed that refuses getpriority(11, ...) and looks at the first
 * argument of everything it is asked, so that nothing is allowed beforehand.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__aarch64__)
#define RESULT regs[0]
#else
#define RESULT rax
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

static void install(void)
{
	struct sock_filter code[] = {
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 11, 0, 3),
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpriority, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 6, .filter = code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void *become_true(void *unused)
{
	execl("/bin/true", "true", (char *)NULL);
	return unused;
}

static void on_sigsys(int signal)
{
	(void)signal;
}

static int dispatched(void)
{
	static volatile char selector = 0; /* allow */
	long result;

	signal(SIGSYS, on_sigsys);
	prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, &selector);
	selector = 1; /* block: the next call is dispatched to the handler */
	result = syscall(SYS_getpriority, 12, 0);
	selector = 0;
	return result == 77;
}

/* A tracer that answers in the kernel's place (PTRACE_SYSEMU, as User-mode Linux does). */
static void emulate(void)
{
	struct user_regs_struct registers;
	struct iovec vector = { .iov_base = &registers, .iov_len = sizeof(registers) };
	int status;
	pid_t child = fork();

	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			_exit(0); /* traced by another already */
		raise(SIGSTOP);
		_exit(syscall(SYS_getpriority, 12, 0) == -1 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	ptrace(PTRACE_SYSEMU, child, 0, 0);
	waitpid(child, &status, 0);
	ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &vector);
	registers.RESULT = -EPERM;
	ptrace(PTRACE_SETREGSET, child, NT_PRSTATUS, &vector);
	ptrace(PTRACE_DETACH, child, 0, 0);
	waitpid(child, &status, 0);
}

/* Tells that it is about to wait, and after that makes one call that is refused. */
static void wait_for_signal(const char *ready)
{
	signal(SIGUSR1, on_sigsys);
	siginterrupt(SIGUSR1, 1);
	close(open(ready, O_CREAT | O_WRONLY, 0600));
	pause();
	syscall(SYS_getpriority, 11, 0);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int status;

	if (!strcmp(argv[1], "strict")) {
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		syscall(SYS_getpid);
		return 1;
	}
	install();
	if (!strcmp(argv[1], "fork")) {
		for (int i = 0; i < 3; i++)
			if (fork() == 0)
				_exit(0);
		while (wait(&status) > 0)
			;
	} else if (!strcmp(argv[1], "thread")) {
		pthread_create(&thread, NULL, become_true, NULL);
		pthread_join(thread, NULL);
	} else if (!strcmp(argv[1], "failing")) {
		syscall(SYS_getpriority, 12, 0);
		close(-1);
		kill(-1 - 0x7ffffff, 0);
	} else if (!strcmp(argv[1], "dispatch")) {
		dispatched();
	} else if (!strcmp(argv[1], "interrupted")) {
		signal(SIGALRM, on_sigsys);
		siginterrupt(SIGALRM, 1);
		alarm(1);
		pause();
	} else if (!strcmp(argv[1], "emulated")) {
		emulate();
	} else if (!strcmp(argv[1], "waiting")) {
		wait_for_signal(argv[2]);
	}
	return 0;
}
