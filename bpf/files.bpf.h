/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which files count, what can be told of them, and where a task last read each, or wrote. */
#ifndef FILES_BPF_H
#define FILES_BPF_H

#include "file_kind.bpf.h"
#include "tasks.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pgt_file_entry);
} pgt_files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, __u32);
} pgt_free_files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct pgt_file_key);
	__type(value, __u32);
} pgt_file_indexes SEC(".maps");

enum pgt_file_flags {
	REGULAR = 1,  /* a regular file of a real file system: its reads count */
	DIRECT = 2,   /* opened with O_DIRECT */
	TELLABLE = 4, /* the reading task itself submits the device's requests */
	STORED = 8,   /* on a device, not in memory alone */
	DURABLE = 16, /* opened with O_DSYNC or O_SYNC: a write ends when it is on the device */
};

/* Where a file system reads in threads of its own, neither the bytes nor the sleep of the
 * reading task tell where a read was served. Overlay is counted among them: what lies below
 * it is not known here. */
static __noinline __u32 file_system_flags(struct inode *inode, __u32 type)
{
	struct super_block *super = BPF_CORE_READ(inode, i_sb);

	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != type)
		return 0;
	switch (BPF_CORE_READ(super, s_magic)) {
	case BTRFS_SUPER_MAGIC:
		return REGULAR | TELLABLE | STORED;
	case RAMFS_MAGIC:
	case TMPFS_MAGIC:
		return REGULAR | TELLABLE;
	case 0: /* CephFS before 72386d5245b2, "fs/ceph: set superblock s_magic for IMA ..." */
	case CEPH_SUPER_MAGIC:
	case CIFS_SUPER_MAGIC:
	case FUSE_SUPER_MAGIC:
	case NFS_SUPER_MAGIC:
	case OVERLAYFS_SUPER_MAGIC:
	case SMB2_SUPER_MAGIC:
	case V9FS_MAGIC:
	case ZFS_SUPER_MAGIC:
		return REGULAR;
	}
	return BPF_CORE_READ(super, s_bdev) ? REGULAR | TELLABLE | STORED : 0;
}

/* The entry on which reads of the file are booked, or of all files of its kind; 0, of which nothing
 * is known, if there is no room for another. User space gives back those of files that are gone,
 * once no task remembers them and no slot is theirs. */
static __noinline __u32 file_entry(struct pgt_task *task, struct inode *inode, bool by_file)
{
	struct pgt_file_entry *found, *entry;
	struct pgt_file_key key = {};
	__u32 *known, index, kind;

	if (!task)
		return 0;
	found = &task->found;
	key.device = found->device;
	key.kind = found->kind;
	key.inode = found->space;
	if (by_file) {
		key.inode = BPF_CORE_READ(inode, i_ino);
		key.generation = BPF_CORE_READ(inode, i_generation);
	}
	known = bpf_map_lookup_elem(&pgt_file_indexes, &key);
	if (known)
		return *known;
	if (bpf_map_pop_elem(&pgt_free_files, &index))
		return 0;
	entry = bpf_map_lookup_elem(&pgt_files, &index);
	if (!entry)
		return 0;
	/* User space takes up what has a kind, and looks at each once */
	kind = found->kind;
	found->kind = KIND_UNKNOWN;
	*entry = *found;
	found->kind = kind;
	entry->inode = by_file ? key.inode : 0;
	entry->generation = key.generation;
	store_barrier();
	entry->kind = kind;
	if (!bpf_map_update_elem(&pgt_file_indexes, &key, &index, BPF_NOEXIST))
		return index;
	/* Another task was faster: what is there twice stays, since user space may know it by now
	 */
	known = bpf_map_lookup_elem(&pgt_file_indexes, &key);
	return known ? *known : 0;
}

/* Where the relation was read last, whichever segment that was. */
static __always_inline __u32 find_stream(struct pgt_task *task, __u64 identity)
{
	struct pgt_stream *stream;
	__u32 i;

	for (i = 0; i < FILES; i++)
		if (task->streams[i].identity == identity)
			break;
	i = unknown(task, i);
	if (i < FILES)
		return i;
	i = task->streams_used++ & (FILES - 1);
	stream = &task->streams[i];
	stream->identity = identity;
	stream->next = NOWHERE;
	if (options.writes)
		task->written[i] = NOWHERE;
	return i;
}

/* Then a relation that was never read and one that is forgotten look alike. */
static __always_inline bool forgot_some(struct pgt_task *task)
{
	return task->streams_used > FILES;
}

/* Whether its reads are told apart from those of others of its kind. Temporary files and segments
 * of WAL come and go, and are told by their directories. */
static __always_inline bool is_told_apart(struct pgt_file_entry *found)
{
	return options.by_file && found->kind != TEMPORARY && found->kind != WAL;
}

/* What is there to know of a file that was not read before. Not static, so that the verifier
 * looks at it once. */
__noinline int meet_file(__u32 task_index, __u64 address, __u32 i)
{
	struct pgt_task *task = task_at(task_index);
	struct pgt_file_state *state;
	struct pgt_file_entry *found;
	struct file *file = (void *)address;
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	if (!task)
		return 0;
	state = &task->files[i & (FILES - 1)];
	found = &task->found;
	recognise(file, found);
	found->device = BPF_CORE_READ(inode, i_sb, s_dev);
	state->by_kind = file_entry(task, inode, false);
	state->entry = is_told_apart(found) ? file_entry(task, inode, true) : 0;
	if (!state->entry)
		state->entry = state->by_kind;
	state->identity = found->relation ? found->relation : (__u64)inode ^ state->number;
	state->base = found->base;
	state->stream = find_stream(task, state->identity);
	return 0;
}

/* That of a file that is gone may be another's at once, at the same address, as may a struct file:
 * a table that is dropped and one that is made next. By this they are told apart. */
static __always_inline __u64 number_of(struct inode *inode)
{
	return BPF_CORE_READ(inode, i_ino) ^ (__u64)BPF_CORE_READ(inode, i_generation) << 32;
}

/* Puts a file of that type among those that the task read last; FILES if its reads do not count. */
static __noinline __u32 remember_file(struct pgt_task *task, struct file *file, struct inode *inode,
				      __u32 type)
{
	__u32 i, opened, flags = file_system_flags(inode, type);
	struct pgt_file_state *state;
	__u64 number;

	if (!(flags & REGULAR)) {
		task->ignored_file = (__u64)file;
		task->ignored_inode = (__u64)inode;
		return FILES;
	}
	for (i = 0; i < FILES; i++)
		if (task->files[i].inode == (__u64)inode)
			break;
	i = unknown(task, i);
	if (i >= FILES)
		i = task->files_used++ & (FILES - 1);
	state = &task->files[i & (FILES - 1)];
	number = number_of(inode);
	state->file = (__u64)file;
	state->window = (__u64)BPF_CORE_READ(file, f_ra.ra_pages) * options.page_bytes;
	if (state->inode != (__u64)inode || state->number != number) {
		state->inode = (__u64)inode;
		state->number = number;
		/* Read back it is a number, as functions want it that are looked at once */
		meet_file(task->index, *(volatile __u64 *)&state->file, i);
	}
	opened = BPF_CORE_READ(file, f_flags);
	if (opened & O_DIRECT)
		flags |= DIRECT;
	if (options.writes && opened & O_DSYNC)
		flags |= DURABLE;
	state->flags = flags;
	return i;
}

static __always_inline bool is_that(struct pgt_file_state *state, struct file *file,
				    struct inode *inode, __u64 number)
{
	return state->file == (__u64)file && state->inode == (__u64)inode &&
	       state->number == number;
}

/* Whether reads of the file count; if so, task->file tells where its state is. */
static __always_inline bool find_file(struct pgt_task *task, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u32 i = task->file & (FILES - 1);
	__u64 number;

	if (!inode)
		return false;
	number = number_of(inode);
	if (is_that(&task->files[i], file, inode, number))
		return true;
	if (task->ignored_file == (__u64)file && task->ignored_inode == (__u64)inode)
		return false;
	for (i = 0; i < FILES; i++)
		if (is_that(&task->files[i], file, inode, number))
			break;
	i = unknown(task, i);
	if (i >= FILES)
		i = remember_file(task, file, inode, S_IFREG);
	if (i >= FILES)
		return false;
	task->file = i;
	return true;
}

/* The same for an fsync, which may be of a directory. */
static __always_inline bool find_synced(struct pgt_task *task, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u32 i;

	if (!inode || (BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFDIR)
		return find_file(task, file);
	i = remember_file(task, file, inode, S_IFDIR);
	if (i >= FILES)
		return false;
	task->file = i;
	return true;
}

#endif
