/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command and prints the kilobytes of its largest resident set. Small
 * itself, because an exec hands the peak of the caller on (exec_mmap).
 */
#include <err.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct rusage usage;
	int status;

	if (argc < 2)
		errx(2, "usage: peak COMMAND [ARGUMENT ...]");
	if (!fork()) {
		execvp(argv[1], argv + 1);
		err(1, "%s", argv[1]);
	}
	if (wait4(-1, &status, 0, &usage) < 0 || status)
		errx(1, "%s failed", argv[1]);
	printf("%ld\n", usage.ru_maxrss);
	return 0;
}
