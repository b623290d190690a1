/*
 * fault WHAT [FILE]: dies of a signal. "bus" maps a file of one page, cuts it, and
 * touches the page; "full" maps a file longer than its file system has room for.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

static void touch(const char *path, size_t size, size_t left)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	char *page;

	if (ftruncate(fd, size))
		exit(99);
	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ftruncate(fd, left))
		exit(99);
	for (size_t at = 0; at < size; at += PAGE)
		page[at] = 1;
}

int main(int argc, char **argv)
{
	if (!strcmp(argv[1], "segv"))
		*(volatile char *)16 = 1;
	else if (!strcmp(argv[1], "abort"))
		abort();
	else if (!strcmp(argv[1], "bus"))
		touch(argv[2], 4 * PAGE, 2 * PAGE);
	else if (!strcmp(argv[1], "full"))
		touch(argv[2], 64 * PAGE, 64 * PAGE);
	return argc > 9;
}
