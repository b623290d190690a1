/*
 * compat WHAT [PATH | PORT]: makes calls of the 32-bit table. On x86-64 by int $0x80, with
 * what they point to in the lowest 4 GiB, as a 32-bit program would; for arm64 it is one.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 5, EXECVE = 11, GETPRIORITY = 96, SOCKETCALL = 102, WRITEV = 146, PRCTL = 172 };
enum { SOCKETCALL_SOCKET = 1, SOCKETCALL_CONNECT = 3 };

#if defined(__arm__)
enum { SOCKET = 281, CONNECT = 283 };
#define ARCHITECTURE AUDIT_ARCH_ARM
#define MAP_LOW 0
#else
#define ARCHITECTURE AUDIT_ARCH_I386
#define MAP_LOW MAP_32BIT
#endif

struct memory {
	struct sock_filter code[6];
	struct { /* struct sock_fprog */
		uint16_t length;
		uint32_t code;
	} program;
	char text[4096];
	uint32_t words[8];
	struct sockaddr_in peer;
} *low;

static long call(long number, uint32_t a, uint32_t b, uint32_t c)
{
#if defined(__arm__)
	return syscall(number, a, b, c);
#else
	int result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c)
			 : "memory", "r8", "r9", "r10", "r11");
	return result;
#endif
}

static uint32_t address(void *place)
{
	return (uint32_t)(uintptr_t)place;
}

static void refuse(uint32_t number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	memcpy(low->code, code, sizeof(code));
	low->program.length = 6;
	low->program.code = address(low->code);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	call(PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, address(&low->program));
}

/* The EABI of arm has no socketcall(2). */
static void connect_to(struct sockaddr_in *peer)
{
#if defined(__arm__)
	long fd = call(SOCKET, AF_INET, SOCK_STREAM, 0);

	call(CONNECT, fd, address(peer), sizeof(*peer));
#else
	low->words[0] = AF_INET;
	low->words[1] = SOCK_STREAM;
	low->words[0] = call(SOCKETCALL, SOCKETCALL_SOCKET, address(low->words), 0);
	low->words[1] = address(peer);
	low->words[2] = sizeof(*peer);
	call(SOCKETCALL, SOCKETCALL_CONNECT, address(low->words), 0);
#endif
}

int main(int argc, char **argv)
{
	low = mmap(NULL, sizeof(*low), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOW, -1, 0);
	if (argc > 2)
		strcpy(low->text, argv[2]);
	if (!strcmp(argv[1], "denied")) {
		refuse(GETPRIORITY);
		call(GETPRIORITY, 11, 22, 33);
	} else if (!strcmp(argv[1], "open")) {
		call(OPEN, address(low->text), 0101 /* O_WRONLY | O_CREAT */, 0600);
	} else if (!strcmp(argv[1], "exec")) {
		low->words[0] = address(low->text);
		call(EXECVE, address(low->text), address(low->words), 0);
	} else if (!strcmp(argv[1], "connect")) {
		low->peer.sin_family = AF_INET;
		low->peer.sin_port = htons(atoi(argv[2]));
		low->peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		connect_to(&low->peer);
	} else if (!strcmp(argv[1], "say")) {
		low->words[0] = address(low->text);
		low->words[1] = strlen(low->text);
		call(WRITEV, 2, address(low->words), 1);
		return 3;
	}
	return 0;
}
