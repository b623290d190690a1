/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The one definition of what crosses from the kernel into user space.
 *
 * Every record starts with a struct record; `kind` says which struct follows.
 * Natural alignment without holes: tests/unit/test_records.py compares sizes
 * and offsets of each field with the decoder in probe/engine/records.py.
 */
#ifndef PROBE_EVENTS_H
#define PROBE_EVENTS_H

#define COMM_SIZE 16
#define PATH_SIZE 256
#define LONG_PATH_SIZE 4096
#define ARGV_SIZE 512
#define ARGV_COUNT 8
#define ARG_SIZE 64
#define UNIX_PATH_SIZE 108
#define CGROUP_NAME_SIZE 64
#define STREAM_NAME_SIZE 60
#define CGROUP_DEPTH 4
#define FOLLOW_UPS 8

enum record_kind {
	RECORD_NONE,
	RECORD_FILTER,
	RECORD_SECCOMP,
	RECORD_FOLLOW,
	RECORD_EXEC,
	RECORD_EXEC_FAILED,
	RECORD_FORK_FAILED,
	RECORD_EXIT,
	RECORD_CONNECT,
	RECORD_OOM,
	RECORD_SIGNAL,
	RECORD_FILE,
	RECORD_NAMESPACE,
	RECORD_RECENT,
	RECORD_CALL,
	RECORD_DNS,
	RECORD_NAMED,
	RECORD_KINDS,
};

/*
 * How a denial showed. RESULT is a suspicion: the call failed and is not one that
 * the filters always allow; evaluating them in user space decides.
 */
enum seccomp_action {
	ACTION_RESULT = 1,
	ACTION_KILL,
	ACTION_TRAP,
	ACTION_KILL_THREAD,
	ACTION_STRICT,
};

/* Whether the kernel's own call was reached, where sys_enter is watched. */
enum seccomp_entered {
	ENTERED_UNKNOWN,
	ENTERED_YES,
	ENTERED_NO,
};

struct record {
	__u64 time_ns; /* CLOCK_BOOTTIME */
	__u64 span;    /* 0: no span */
	__u32 kind;
	__u32 pid;  /* thread group, as the probe's pid namespace numbers it */
	__u32 tid;  /* thread, likewise */
	__u32 ppid; /* the process that created it, even when reparented since */
	__u32 uid; /* the effective one */
	__u32 mnt_ns; /* inode number */
	__u32 serial; /* of the seccomp record made by the same call; 0: none */
	__u32 count;  /* it stands for so many, itself included (fold.h) */
	__u32 inner_pid; /* thread group, as the innermost pid namespace numbers it */
	__u32 session;   /* the session's leader, in the probe's namespace */
	char comm[COMM_SIZE];
};

/*
 * Where a record or a key names a call by its number, this bit says that it is one of
 * the 32-bit table.
 */
#define COMPAT_CALL 0x80000000U

/* The number of a call that is not known. */
#define UNKNOWN_CALL 0x3fffffffU

/* Where the effective capabilities could not be learned: there are not so many. */
#define UNKNOWN_CAPABILITIES 0xffffffffffffffffULL

#define FILTER_CHUNK 256
#define MISSING_COUNT 32
#define MISSING_SIZE 128
#define GONE_COUNT 4
#define WORDS_COUNT 8
#define WORDS_SIZE 256
#define NAME_SIZE 128
#define DNS_SIZE 288 /* a header and the longest name with type and class */

struct filter_instruction {
	__u16 code;
	__u8 jump_true;
	__u8 jump_false;
	__u32 k;
};

/* A piece of one filter program (classic BPF, at most 4096 instructions). */
struct filter_record {
	struct record head;
	__u64 filter;   /* address: its name, until another is installed there */
	__u64 previous; /* the filter it was stacked on; 0: none */
	__u32 length;   /* of the whole program, in instructions */
	__u32 offset;   /* of this piece */
	struct filter_instruction instructions[FILTER_CHUNK];
};

struct seccomp_record {
	struct record head;
	__u64 args[6];
	__u64 ip;
	__u64 filter; /* the top of the task's stack */
	__s64 ret;
	__u32 syscall;
	__u32 compat; /* 1: a 32-bit call */
	__u32 action; /* enum seccomp_action */
	__u32 entered; /* enum seccomp_entered */
	char path[PATH_SIZE]; /* of calls that take one */
};

struct follow_up {
	__u32 syscall;
	__s32 ret;
};

/* What the thread did after a denial: its next calls, and how many in all. */
struct follow_record {
	struct record head;
	struct follow_up calls[FOLLOW_UPS];
	__u64 total;
	__u32 pad;
	__u32 ended; /* 1: the thread has exited, so the list is all there is */
};

/* Where a program reads from, or writes to: what connects it with others. */
struct stream {
	__u32 pipe; /* the number of its inode; 0: it is none */
	char file[STREAM_NAME_SIZE]; /* the last part of its path; empty: it is no regular one */
};

struct exec_record {
	struct record head;
	struct stream streams[2]; /* standard input, standard output */
	__u32 argv_size;
	__u32 argc;
	char path[PATH_SIZE];
	char argv[ARGV_SIZE]; /* NUL-separated */
};

struct exec_failed_record {
	struct record head;
	__s32 error;
	__s32 dirfd;
	__u32 flags;
	__u32 argc; /* how many of argv are filled; an argument may be cut */
	/* Of arguments and environment, where they were too long (E2BIG): */
	__u64 stack_limit; /* RLIMIT_STACK */
	__u64 size;        /* of those that were counted */
	__u32 strings;     /* how many those are */
	__u32 longest;
	char cwd[PATH_SIZE];
	char argv[ARGV_COUNT][ARG_SIZE];
	char path[LONG_PATH_SIZE];
};

struct cgroup_limit {
	__u64 limit;
	__u64 usage;
	/* from the limiting cgroup upwards; the root has an empty name */
	char name[CGROUP_DEPTH][CGROUP_NAME_SIZE];
};

struct fork_failed_record {
	struct record head;
	__s32 error;
	__u32 syscall;
	__u64 nproc_limit;
	__u32 without_init; /* 1: the init of the pid namespace for children has ended */
	__u32 pad;
	struct cgroup_limit pids; /* limit 0: no pids cgroup stands at its limit */
};

struct exit_record {
	struct record head;
	__s32 status;   /* as wait(2) gives it */
	__u32 real_ppid; /* who will reap it */
	__u64 started_ns; /* CLOCK_BOOTTIME */
	__u32 silenced; /* 1: its stderr goes to /dev/null, if it is still open */
	__u32 pad;
};

enum connect_stage {
	CONNECT_CALLED,  /* what connect(2) said */
	CONNECT_PENDING, /* it said EINPROGRESS, and this is how it ended */
	CONNECT_IN_USE,  /* an error that came over a socket in use */
	CONNECT_BOUND,   /* bind(2) failed: the address is the local one */
};

struct connect_record {
	struct record head;
	__u64 duration_ns;
	__u64 capabilities; /* effective */
	__s32 error;  /* 0: connected */
	__u16 family;
	__u16 port; /* host order */
	__u16 type; /* SOCK_STREAM ... */
	__u16 stage; /* enum connect_stage */
	__u32 abandoned; /* 1: closed by its owner before an answer came */
	__u32 server; /* who listens there, where it is known */
	__u8 address[16];
	char path[UNIX_PATH_SIZE];
};

struct oom_record {
	struct record head; /* the victim's */
	__u64 total_vm_pages;
	__u32 trigger_pid;
	__u32 pad;
	struct cgroup_limit memory; /* pages; limit 0: the whole machine */
};

struct signal_record {
	struct record head; /* the sender's */
	__u32 target_pid;
	__s32 signal;
	__s32 code;
	__u32 from_kernel;
	__u64 target_span;
	__u64 limit;     /* the resource limit behind the signal; 0: none is */
	__u64 address;   /* that could not be accessed; 0: it is not about one */
	__u64 offset;    /* of that address in the file that is mapped there */
	__u64 file_size;
	char target_comm[COMM_SIZE];
	char mapping[PATH_SIZE]; /* that file; empty: none, or not to be had */
};

struct file_record {
	struct record head;
	__s32 error;
	__u32 syscall;
	__s32 dirfd;
	__u32 user_ns_level; /* 0: the initial user namespace */
	__u64 args[6];
	__u64 limit;        /* the resource limit behind the errno; 0: none is */
	__u64 capabilities; /* effective */
	char cwd[PATH_SIZE];
	char path[LONG_PATH_SIZE];
};

struct namespace_record {
	struct record head;
	__u32 old_mnt_ns;
	__u32 pad;
};

/* A program that is part of no span has one by its environment; `head` tells its number. */
struct named_record {
	struct record head;
	char test[NAME_SIZE]; /* $PROBE_TEST */
	char run[NAME_SIZE];  /* $PROBE_RUN */
};

struct missing {
	__u64 time_ns; /* CLOCK_BOOTTIME */
	char path[MISSING_SIZE];
};

/* What was written to one descriptor: the first slot stays, the others are a ring. */
struct words {
	__u32 total; /* slots begun before the one that is being filled */
	__u32 used;  /* of that one */
	__u32 size[WORDS_COUNT];
	char text[WORDS_COUNT + 1][WORDS_SIZE]; /* the last: slack that the verifier asks for */
};

/* Of `missing` the total only grows, and modulo the size it names the next slot. */
struct recent {
	__u32 missing_total;
	__u32 silenced; /* 1: the last words to stderr went to /dev/null */
	struct missing missing[MISSING_COUNT];
	struct words errors; /* to stderr */
	struct words output; /* to stdout */
};

/* Who made a file that is not there any more. */
struct writer {
	__u64 time_ns; /* CLOCK_BOOTTIME */
	__u64 span;
	__u32 pid;
	__u32 mnt_ns;
	char comm[COMM_SIZE];
};

/* Goes before the exit record of a process that failed. */
struct recent_record {
	struct record head;
	__u32 of_creator; /* 1: what the process that forked it looked for */
	__u32 gone;       /* how many of `writers` are filled */
	__u32 gone_slots[GONE_COUNT]; /* of recent.missing, which they made */
	struct writer writers[GONE_COUNT];
	struct recent recent;
};

/* A refusal by the kernel itself that belongs to no other sense. */
struct call_record {
	struct record head;
	__u64 args[6];
	__s32 error;
	__u32 syscall;
	__u64 limit; /* the resource limit behind the errno; 0: none is */
	__u64 usage; /* of address space, in pages, where that is the limit */
	__u64 capabilities; /* effective */
	__u32 user_ns_level; /* 0: the initial user namespace */
	__u32 pad;
	char path[PATH_SIZE];
};

/* The beginning of a message to or from port 53. */
struct dns_record {
	struct record head;
	__u16 family;
	__u16 port;
	__u16 answer; /* 1: received */
	__u16 size;   /* of what is filled */
	__u8 address[16];
	__u8 data[DNS_SIZE];
};

/* What the loader decides before the programs are loaded. */
/* The number of what is part of no span, where everybody is watched. */
#define NOBODYS_SPAN 1

struct settings {
	__u32 pid_ns;    /* inode number of the namespace in scope; 0: every task */
	__u32 self_tgid; /* the probe's own process, in that namespace */
	__u32 mnt_ns;    /* the probe's own */
	__u32 everyone;  /* 1: tasks without a span are watched as well */
	__s32 connect_nr;
	__s32 seccomp_nr;
	__s32 prctl_nr;
	__s32 write_nr;
	__s32 writev_nr;
	__s32 sendto_nr;
	__s32 sendmsg_nr;
	__s32 sendmmsg_nr;
	__s32 brk_nr;
	__s32 socketcall_nr; /* of the 32-bit table, as those after it; -1 on arm */
	__s32 compat_seccomp_nr;
	__s32 compat_prctl_nr;
	__u64 file_errnos[3]; /* bit n: errno n is reported for file calls */
	__u64 call_errnos[3]; /* of calls of no other sense */
	/* Last, since the verifier bounds a byte offset into the ones above too loosely. */
	__u64 successes[8]; /* bit n: that call number n succeeded is of interest */
};

struct fold_key {
	__u64 span;
	__u32 pid;
	__u32 kind;
	__u32 syscall;
	__s32 error;
	__u32 thing; /* a hash of the path or the like; 0: none, -1: all together */
	__u32 pad;
};

struct fold {
	__u64 told_ns; /* CLOCK_BOOTTIME */
	__u32 told;
	__u32 hidden; /* since then */
};

/* Losses are counted per span and record kind. */
struct loss_key {
	__u64 span;
	__u32 kind;
	__u32 pad;
};

#endif
