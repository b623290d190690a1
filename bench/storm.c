/*
 * storm WHAT N [PATH]: makes N calls that fail alike, then exits with 3. "seccomp"
 * installs its own filter, "file" creates PATH.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

static void deny_getpriority(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpriority, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void refused_connect(void)
{
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(1) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	connect(fd, (struct sockaddr *)&peer, sizeof(peer));
	close(fd);
}

int main(int argc, char **argv)
{
	char *const arguments[] = { "no", NULL };
	long count = atol(argv[2]);

	if (!strcmp(argv[1], "seccomp"))
		deny_getpriority();
	for (long i = 0; i < count; i++) {
		if (!strcmp(argv[1], "seccomp"))
			syscall(SYS_getpriority, 0, 0);
		else if (!strcmp(argv[1], "exec"))
			execve("/no/such/program", arguments, environ);
		else if (!strcmp(argv[1], "file"))
			open(argv[3], O_WRONLY | O_CREAT, 0644);
		else
			refused_connect();
	}
	return 3;
}
