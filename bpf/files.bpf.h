/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which files count, what can be told of them, and where a task last read each. */
#ifndef FILES_BPF_H
#define FILES_BPF_H

enum file_flags {
	REGULAR = 1,  /* a regular file of a real file system: its reads count */
	DIRECT = 2,   /* opened with O_DIRECT */
	TELLABLE = 4, /* the reading task itself submits the device's requests */
};

/* Where a file system reads in threads of its own, neither the bytes nor the sleep of the
 * reading task tell where a read was served. Overlay is counted among them: what lies below
 * it is not known here. */
static __noinline __u32 file_system_flags(struct inode *inode)
{
	struct super_block *super = BPF_CORE_READ(inode, i_sb);

	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	switch (BPF_CORE_READ(super, s_magic)) {
	case BTRFS_SUPER_MAGIC:
	case RAMFS_MAGIC:
	case TMPFS_MAGIC:
		return REGULAR | TELLABLE;
	case CEPH_SUPER_MAGIC:
	case FUSE_SUPER_MAGIC:
	case NFS_SUPER_MAGIC:
	case OVERLAYFS_SUPER_MAGIC:
	case SMB2_SUPER_MAGIC:
	case V9FS_MAGIC:
	case ZFS_SUPER_MAGIC:
		return REGULAR;
	}
	return BPF_CORE_READ(super, s_bdev) ? REGULAR | TELLABLE : 0;
}

/* Puts the file among those that the task read last; FILES if its reads do not count. */
static __noinline __u32 remember_file(struct task *task, struct file *file, struct inode *inode)
{
	__u32 i, flags = file_system_flags(inode);
	struct file_state *state;
	__u64 number;

	if (!(flags & REGULAR)) {
		task->ignored_file = (__u64)file;
		task->ignored_inode = (__u64)inode;
		return FILES;
	}
	for (i = 0; i < FILES; i++)
		if (task->files[i].inode == (__u64)inode)
			break;
	if (i == FILES)
		i = task->files_used++ & (FILES - 1);
	state = &task->files[i & (FILES - 1)];
	number = BPF_CORE_READ(inode, i_ino);
	if (state->inode != (__u64)inode || state->number != number)
		state->next = NOWHERE;
	state->file = (__u64)file;
	state->inode = (__u64)inode;
	state->number = number;
	if (BPF_CORE_READ(file, f_flags) & O_DIRECT)
		flags |= DIRECT;
	state->flags = flags;
	return i;
}

/* Whether reads of the file count; if so, task->file tells where its state is. */
static __always_inline bool find_file(struct task *task, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u32 i = task->file & (FILES - 1);

	if (!inode)
		return false;
	if (task->files[i].file == (__u64)file && task->files[i].inode == (__u64)inode)
		return true;
	if (task->ignored_file == (__u64)file && task->ignored_inode == (__u64)inode)
		return false;
	for (i = 0; i < FILES; i++)
		if (task->files[i].file == (__u64)file && task->files[i].inode == (__u64)inode)
			break;
	if (i == FILES)
		i = remember_file(task, file, inode);
	if (i >= FILES)
		return false;
	task->file = i;
	return true;
}

#endif
