/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Paths as the task sees them: from a dentry up to the root of its mount namespace. */
#ifndef PROBE_PATH_H
#define PROBE_PATH_H

#include "task.h"

#define PATH_DEPTH 32

/* Built from the middle backwards, and where it has come to (as numbers: a map has no pointers). */
struct path_buffer {
	char text[2 * PATH_SIZE]; /* slack for the verifier */
	u64 dentry;
	u64 mount;
	u64 root;
	u64 root_mount;
	u32 at;
	u32 pad;
};

/* Only programs in process context build paths, and those are not preempted by each other. */
SCRATCH(path_buffer);

static __always_inline struct mount *mount_of(struct vfsmount *mnt)
{
	return (void *)mnt - bpf_core_field_offset(struct mount, mnt);
}

/* One name more, or from a mount to where it is mounted. */
STEP path_step(u32 depth, void *unused)
{
	struct path_buffer *buffer = scratch_path_buffer();
	struct dentry *dentry, *parent;
	struct mount *mnt, *mnt_parent;
	u32 at, len;

	if (!buffer)
		return 1;
	dentry = (struct dentry *)buffer->dentry;
	mnt = (struct mount *)buffer->mount;
	if (buffer->dentry == buffer->root && buffer->mount == buffer->root_mount)
		return 1;
	if (dentry == BPF_CORE_READ(mnt, mnt.mnt_root)) {
		mnt_parent = BPF_CORE_READ(mnt, mnt_parent);
		if (mnt_parent == mnt)
			return 1;
		buffer->dentry = (u64)BPF_CORE_READ(mnt, mnt_mountpoint);
		buffer->mount = (u64)mnt_parent;
		return 0;
	}
	parent = BPF_CORE_READ(dentry, d_parent);
	if (parent == dentry)
		return 1;
	at = buffer->at;
	len = BPF_CORE_READ(dentry, d_name.len);
	if (len + 1 > at)
		return 1;
	at = (at - len) & (PATH_SIZE - 1);
	bpf_probe_read_kernel(&buffer->text[at], len & (PATH_SIZE - 1),
			      BPF_CORE_READ(dentry, d_name.name));
	at = (at - 1) & (PATH_SIZE - 1);
	buffer->text[at] = '/';
	buffer->at = at;
	buffer->dentry = (u64)parent;
	return 0;
}

/*
 * Builds the path in this CPU's buffer and says where it starts; an over-long
 * one loses its front. A global function, so that it is verified once and not
 * at each call; those take numbers, hence the address as one.
 */
__noinline u32 path_build(u64 address)
{
	struct path *from = (struct path *)address;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct path_buffer *buffer = scratch_path_buffer();
	u32 at;

	if (!buffer)
		return 0;
	buffer->text[PATH_SIZE - 1] = 0;
	buffer->dentry = (u64)BPF_CORE_READ(from, dentry);
	buffer->mount = (u64)mount_of(BPF_CORE_READ(from, mnt));
	buffer->root = (u64)BPF_CORE_READ(task, fs, root.dentry);
	buffer->root_mount = (u64)mount_of(BPF_CORE_READ(task, fs, root.mnt));
	buffer->at = PATH_SIZE - 1;
	repeat(PATH_DEPTH, path_step, NULL);
	at = buffer->at & (PATH_SIZE - 1);
	if (at == PATH_SIZE - 1) {
		at = PATH_SIZE - 2;
		buffer->text[at] = '/';
	}
	return at;
}

/* Writes the path, NUL-terminated, into out[PATH_SIZE]. */
static __always_inline void path_text(void *from, char *out)
{
	u32 at = path_build((u64)from) & (PATH_SIZE - 1);
	struct path_buffer *buffer = scratch_path_buffer();

	if (buffer)
		bpf_probe_read_kernel_str(out, PATH_SIZE, &buffer->text[at]);
}

static __always_inline void cwd_text(struct task_struct *task, char *out)
{
	struct fs_struct *fs = BPF_CORE_READ(task, fs);

	if (fs)
		path_text((void *)fs + bpf_core_field_offset(struct fs_struct, pwd), out);
}

static __always_inline void file_text(struct file *file, char *out)
{
	path_text((void *)file + bpf_core_field_offset(struct file, f_path), out);
}

static __always_inline struct file *file_of(struct task_struct *task, int fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files, *file = NULL;

	if (fd < 0 || (u32)fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file;
}

/* Whether one descriptor is a copy of the other (dup(2)). */
static __always_inline bool is_same_file(struct task_struct *task, u32 one, u32 other)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *first = NULL, *second = NULL;
	u32 count = BPF_CORE_READ(table, max_fds);

	if (one >= count || other >= count)
		return false;
	bpf_probe_read_kernel(&first, sizeof(first), files + one);
	bpf_probe_read_kernel(&second, sizeof(second), files + other);
	return first && first == second;
}

/* stat.h */
#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFREG 0100000

static __always_inline u32 file_type(struct file *file)
{
	return file ? BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT : 0;
}

static __always_inline void stream_of(struct task_struct *task, int fd, struct stream *out)
{
	struct file *file = file_of(task, fd);
	u32 type = file_type(file);

	out->pipe = type == S_IFIFO ? BPF_CORE_READ(file, f_inode, i_ino) : 0;
	out->file[0] = 0;
	if (type == S_IFREG)
		bpf_probe_read_kernel_str(out->file, sizeof(out->file),
					  BPF_CORE_READ(file, f_path.dentry, d_name.name));
}

/* What a path that is not absolute starts from: the directory (or file) `fd`, or the cwd. */
static __always_inline void base_text(struct task_struct *task, const char *path, int fd, char *out)
{
	struct file *file;

	out[0] = 0;
	if (path[0] == '/')
		return;
	file = file_of(task, fd);
	if (file)
		file_text(file, out);
	else
		cwd_text(task, out);
}

#endif
