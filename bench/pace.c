/*
 * pace RATE SECONDS: makes RATE events a second, evenly: processes that each fail to
 * connect 16 times and to start a program 3 times, and end (20 events). Prints how many.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONNECTS 16
#define EXECS 3
#define EVENTS (CONNECTS + EXECS + 1)

extern char **environ;

static void fail(void)
{
	char *const arguments[] = { "no", NULL };
	char path[32];

	for (int i = 1; i <= CONNECTS; i++) {
		struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(i) };
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		connect(fd, (struct sockaddr *)&peer, sizeof(peer));
		close(fd);
	}
	for (int i = 0; i < EXECS; i++) {
		snprintf(path, sizeof(path), "/no/such/program%d", i);
		execve(path, arguments, environ);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	long rate = argc > 2 ? atol(argv[1]) : 1000, seconds = argc > 2 ? atol(argv[2]) : 1;
	long count = rate * seconds / EVENTS, pause_ns = 1000000000L * EVENTS / rate;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long i = 0; i < count; i++) {
		pid_t child = fork();

		if (!child)
			fail();
		waitpid(child, NULL, 0);
		next.tv_nsec += pause_ns;
		next.tv_sec += next.tv_nsec / 1000000000L;
		next.tv_nsec %= 1000000000L;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	printf("%ld\n", count * EVENTS);
	return 0;
}
