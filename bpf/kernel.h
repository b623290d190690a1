/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The kernel types that the programs touch, and of each only the fields used.
 * CO-RE moves every access to where the running kernel keeps the field.
 * A type with ___suffix is the same kernel type in another release.
 */
#ifndef PROBE_KERNEL_H
#define PROBE_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;

#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

typedef struct {
	long counter;
} atomic_long_t;

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long bp, bx, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	u64 regs[31];
	u64 pc;
};
struct pt_regs {
	struct user_pt_regs user_regs;
	u64 orig_x0;
	s32 syscallno;
};
#endif

struct thread_info {
	unsigned long flags;
	unsigned long syscall_work; /* since 5.11 on x86, 6.x elsewhere */
	u32 status;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
	unsigned int pid_allocated;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
	struct pid_namespace *pid_ns_for_children;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[0];
};

enum pid_type {
	PIDTYPE_SID = 3,
};

struct rlimit {
	unsigned long rlim_cur;
	unsigned long rlim_max;
};

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

struct sighand_struct {
	struct k_sigaction action[64];
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct signal_struct {
	atomic_t live;
	int group_exit_code;
	unsigned int flags;
	struct rlimit rlim[16];
	struct pid *pids[4];
};

typedef struct {
	u32 val;
} kuid_t;

typedef struct {
	u64 val; /* two halves until 6.2 */
} kernel_cap_t;

struct user_namespace {
	int level;
};

struct cred {
	kuid_t euid;
	kernel_cap_t cap_effective;
	struct user_namespace *user_ns;
};

struct action_cache {
	unsigned long allow_native[8];
	unsigned long allow_compat[8];
};

struct sock_filter {
	u16 code;
	u8 jt;
	u8 jf;
	u32 k;
};

struct sock_fprog_kern {
	u16 len;
	struct sock_filter *filter;
};

struct bpf_prog {
	struct sock_fprog_kern *orig_prog;
};

struct seccomp_filter {
	struct action_cache cache; /* since 5.11 */
	struct seccomp_filter *prev;
	struct bpf_prog *prog;
};

struct seccomp {
	int mode;
	struct seccomp_filter *filter;
};

struct qstr {
	u32 len;
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct fs_struct {
	struct path root;
	struct path pwd;
};

struct inode {
	unsigned short i_mode;
	u32 i_rdev;
	unsigned long i_ino;
	long long i_size;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	long long f_pos;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct kernfs_node {
	struct kernfs_node *parent; /* until 6.14 */
	const char *name;
};

struct kernfs_node___rcu {
	struct kernfs_node *__parent; /* since 6.15 */
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

enum cgroup_subsys_id {
	memory_cgrp_id,
	pids_cgrp_id,
};

struct css_set {
	struct cgroup_subsys_state *subsys[16];
};

struct pids_cgroup {
	struct cgroup_subsys_state css;
	atomic64_t counter;
	atomic64_t limit;
};

struct page_counter {
	atomic_long_t usage;
	unsigned long max;
};

struct mem_cgroup {
	struct cgroup_subsys_state css;
	struct page_counter memory;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct mm_struct {
	unsigned long total_vm;
	unsigned long arg_start;
	unsigned long arg_end;
	unsigned long env_start;
	unsigned long env_end;
};

struct task_struct {
	struct thread_info thread_info;
	void *stack;
	unsigned int flags;
	struct mm_struct *mm;
	int exit_code;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	u64 start_boottime;
	const struct cred *cred;
	char comm[16];
	struct fs_struct *fs;
	struct files_struct *files;
	struct nsproxy *nsproxy;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	struct sigpending pending;
	struct seccomp seccomp;
	struct css_set *cgroups;
};

struct linux_binprm {
	int argc;
	const char *filename;
};

/* siginfo: the fields of each member of _sifields that are used */
struct kernel_siginfo {
	int si_signo;
	int si_errno;
	int si_code;
	union {
		struct {
			void *_call_addr;
			int _syscall;
			unsigned int _arch;
		} _sigsys;
		struct {
			void *_addr;
		} _sigfault;
	} _sifields;
};

struct in6_addr {
	union {
		u8 u6_addr8[16];
	} in6_u;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__be32 skc_daddr;
	__be16 skc_dport;
	unsigned short skc_family;
	unsigned char skc_state;
	u16 skc_num;
	struct in6_addr skc_v6_daddr;
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
	int sk_err;
	int sk_err_soft;
	u16 sk_type;
	struct pid *sk_peer_pid;
};

struct socket {
	short type;
	struct file *file;
	struct sock *sk;
};

#pragma clang attribute pop

#define PIDNS_ADDING (1U << 31)
#define TS_COMPAT 0x0002
#define SIGNAL_GROUP_EXIT 0x00000004
#define PF_FORKNOEXEC 0x00000040
#define PF_SIGNALED 0x00000400
#define PF_KTHREAD 0x00200000

#define PAGE_SHIFT 12

#endif
