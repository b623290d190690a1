/*
 * denied ACTION CALL [ARGUMENT]: installs a seccomp filter that answers ACTION (a
 * number, SECCOMP_RET_*) to the syscall CALL (a number) where its first argument is
 * 11, makes that call with ARGUMENT (default 11), and tells its result. With a
 * fourth argument it does so in a second thread, with a fifth it handles SIGSYS.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static long number, argument = 11;

static void on_sigsys(int signal)
{
	(void)signal;
}

static void *make_call(void *unused)
{
	long result = syscall(number, argument, 22, 33, 44, 55, 66);

	(void)unused;
	printf("result %ld errno %d\n", result, errno);
	fflush(stdout);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 11, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 6, .filter = code };
	pthread_t thread;

	code[4].k = strtoul(argv[1], NULL, 0);
	number = atol(argv[2]);
	code[1].k = number;
	if (argc > 3)
		argument = atol(argv[3]);
	if (argc > 5)
		signal(SIGSYS, on_sigsys);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 99;
	if (argc > 4) {
		pthread_create(&thread, NULL, make_call, NULL);
		pthread_join(thread, NULL);
	} else {
		make_call(NULL);
	}
	return 7;
}
