/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers of the kernel's interface, the same on every machine that the programs are built for. */
#ifndef PROBE_NUMBERS_H
#define PROBE_NUMBERS_H

#define SIGHUP 1
#define SIGINT 2
#define SIGQUIT 3
#define SIGILL 4
#define SIGABRT 6
#define SIGBUS 7
#define SIGFPE 8
#define SIGKILL 9
#define SIGSEGV 11
#define SIGALRM 14
#define SIGTERM 15
#define SIGXCPU 24
#define SIGXFSZ 25
#define SIGSYS 31

/* Those that a handler may well survive, and that are told only where there is none. */
#define CRASHES                                                                                    \
	(1U << SIGILL | 1U << SIGABRT | 1U << SIGBUS | 1U << SIGFPE | 1U << SIGSEGV)
#define ENDING_SIGNALS                                                                             \
	(1U << SIGHUP | 1U << SIGINT | 1U << SIGQUIT | 1U << SIGKILL | 1U << SIGALRM |             \
	 1U << SIGTERM | 1U << SIGXCPU | 1U << SIGXFSZ)

#define SYS_SECCOMP 1
#define SI_TIMER -2
#define SI_SIGIO -5
#define BUS_ADRERR 2

#define RLIMIT_CPU 0
#define RLIMIT_FSIZE 1
#define RLIMIT_STACK 3
#define RLIMIT_NPROC 6
#define RLIMIT_NOFILE 7
#define RLIMIT_AS 9

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1

#define TCP_SYN_SENT 2
#define TCP_CLOSE 7
#define TCP_LISTEN 10

#define EPERM 1
#define ENOENT 2
#define ENOTDIR 20
#define E2BIG 7
#define EMFILE 24
#define EFBIG 27
#define ENOSPC 28
#define EAGAIN 11
#define EACCES 13
#define ENOMEM 12
#define EINTR 4
#define EINPROGRESS 115
#define EAFNOSUPPORT 97
#define EADDRINUSE 98
#define EADDRNOTAVAIL 99
#define ENETUNREACH 101
#define ECONNRESET 104
#define ETIMEDOUT 110
#define ECONNREFUSED 111
#define EHOSTUNREACH 113
#define EALREADY 114
#define EISCONN 106
#define ERESTARTSYS 512
#define ERESTART_RESTARTBLOCK 516

#endif
