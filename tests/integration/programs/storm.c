/* storm WHAT N: makes N calls that fail alike, then exits with 3. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

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

	for (long i = 0; i < count; i++) {
		if (!strcmp(argv[1], "connect"))
			refused_connect();
		else if (!strcmp(argv[1], "exec"))
			execve("/no/such/program", arguments, environ);
		else if (!strcmp(argv[1], "file"))
			open(argv[3], O_WRONLY | O_CREAT, 0644);
		else if (!strcmp(argv[1], "seccomp"))
			syscall(SYS_getpriority, 11, 0);
	}
	return 3;
}
