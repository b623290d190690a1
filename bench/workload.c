/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few seconds of what test suites do: compile, touch small files, start short
 * processes, open connections. `workload DIR SOURCE` prints the seconds of each
 * part, and the processor time that all of it took.
 */
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMPILATIONS 8
#define FILES 12000
#define PROCESSES 700
#define CONNECTIONS 7000

extern char **environ;

static void run(char *const argv[])
{
	pid_t pid;
	int status;

	if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ))
		err(1, "%s", argv[0]);
	if (waitpid(pid, &status, 0) < 0 || status)
		errx(1, "%s failed", argv[0]);
}

static void compile(char *source)
{
	char *const argv[] = { "gcc", "-O2", "-c", "-o", "workload.o", source, NULL };

	for (int i = 0; i < COMPILATIONS; i++)
		run(argv);
}

/* A third of the lookups fail, as they do along a search path. */
static void files(char *source)
{
	char text[512] = { 0 }, path[32];
	struct stat found;
	int fd;

	(void)source;
	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "file-%d", i);
		if (!access(path, F_OK))
			errx(1, "%s is there", path);
		fd = open(path, O_RDWR | O_CREAT, 0600);
		if (fd < 0 || write(fd, text, sizeof(text)) != sizeof(text))
			err(1, "%s", path);
		close(fd);
		fd = open(path, O_RDONLY);
		if (read(fd, text, sizeof(text)) != sizeof(text) || stat(path, &found))
			err(1, "%s", path);
		close(fd);
		unlink(path);
	}
}

static void spawn(char *source)
{
	char *const argv[] = { "/bin/true", NULL };

	(void)source;
	for (int i = 0; i < PROCESSES; i++)
		run(argv);
}

static void serve(int listener)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0 || write(fd, "x", 1) != 1)
			err(1, "accept");
		close(fd);
	}
}

/* Closed by a reset, so that no port waits out its TIME_WAIT and is missed by the next run. */
static void connections(char *source)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger reset = { .l_onoff = 1 };
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	pid_t server;
	char byte;

	(void)source;
	if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 16) ||
	    getsockname(listener, (struct sockaddr *)&address, &size))
		err(1, "listen");
	server = fork();
	if (!server)
		serve(listener);
	for (int i = 0; i < CONNECTIONS; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (struct sockaddr *)&address, size) || read(fd, &byte, 1) != 1)
			err(1, "connect");
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(fd);
	}
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static double seconds(struct timeval time)
{
	return time.tv_sec + time.tv_usec / 1e6;
}

static double cpu(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*work)(char *source);
	} parts[] = { { "compile", compile },
		      { "files", files },
		      { "spawn", spawn },
		      { "connect", connections } };

	if (argc != 3 || chdir(argv[1]))
		errx(2, "usage: workload DIR SOURCE");
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		double start = now();

		parts[i].work(argv[2]);
		printf("%s %f\n", parts[i].name, now() - start);
	}
	printf("cpu %f\n", cpu(RUSAGE_SELF) + cpu(RUSAGE_CHILDREN));
	return 0;
}
