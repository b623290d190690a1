/* uring PORT: connects to 127.0.0.1:PORT through io_uring, without connect(2). */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])) };
	struct io_uring_params params = { 0 };
	struct io_uring_sqe *entry;
	unsigned char *queue, *completions;
	unsigned *tail;
	int ring, fd;

	peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ring = syscall(SYS_io_uring_setup, 4, &params);
	if (ring < 0) {
		perror("io_uring_setup");
		return 77;
	}
	queue = mmap(NULL, params.sq_off.array + 4 * sizeof(unsigned), PROT_READ | PROT_WRITE,
		     MAP_SHARED, ring, IORING_OFF_SQ_RING);
	completions = mmap(NULL, params.cq_off.cqes + 8 * sizeof(struct io_uring_cqe),
			   PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	entry = mmap(NULL, 4 * sizeof(*entry), PROT_READ | PROT_WRITE, MAP_SHARED, ring,
		     IORING_OFF_SQES);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	memset(entry, 0, sizeof(*entry));
	entry->opcode = IORING_OP_CONNECT;
	entry->fd = fd;
	entry->addr = (unsigned long)&peer;
	entry->off = sizeof(peer);
	((unsigned *)(queue + params.sq_off.array))[0] = 0;
	tail = (unsigned *)(queue + params.sq_off.tail);
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	printf("%d\n", ((struct io_uring_cqe *)(completions + params.cq_off.cqes))->res);
	return 3;
}
