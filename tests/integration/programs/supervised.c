/*
 * supervised CALL REPLY: a parent supervises CALL of a child through a seccomp user
 * notification and replies "continue", "refuse" (EPERM) or "fake" (the value 5).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void send_fd(int socket, int fd)
{
	char byte = 0, space[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = space,
				  .msg_controllen = sizeof(space) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	sendmsg(socket, &message, 0);
}

static int receive_fd(int socket)
{
	char byte, space[CMSG_SPACE(sizeof(int))];
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = space,
				  .msg_controllen = sizeof(space) };
	int fd;

	if (recvmsg(socket, &message, 0) <= 0)
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return fd;
}

static int child(int socket, long number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };
	int listener;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			   SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	send_fd(socket, listener);
	close(listener);
	for (int i = 0; i < 5; i++) { /* the first may come before the probe watches enters */
		usleep(150000);
		syscall(number, 99, 0, 0, 0, 0, 0);
	}
	return 7;
}

int main(int argc, char **argv)
{
	long number = atol(argv[1]);
	int sockets[2], listener, status;
	pid_t pid;

	socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
	pid = fork();
	if (pid == 0)
		return child(sockets[1], number);
	close(sockets[1]);
	listener = receive_fd(sockets[0]);
	for (int i = 0; i < 5; i++) {
		struct seccomp_notif request = { 0 };
		struct seccomp_notif_resp reply = { 0 };

		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request))
			break;
		reply.id = request.id;
		if (!strcmp(argv[2], "continue"))
			reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		else if (!strcmp(argv[2], "refuse"))
			reply.error = -EPERM;
		else
			reply.val = 5;
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}
