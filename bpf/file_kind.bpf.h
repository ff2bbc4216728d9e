/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a file of PostgreSQL is, as its name and those of its directories tell. User space makes
 * names for people of it; here is only what reads are booked on. */
#ifndef FILE_KIND_BPF_H
#define FILE_KIND_BPF_H

#include "branchless.bpf.h"
#include "tasks.bpf.h"

/* The first eight bytes of names, as numbers */
#define PGSQL_TM  0x6d745f6c71736770 /* pgsql_tmp… */
#define GLOBAL	  0x6c61626f6c67     /* global */
#define PG_WAL	  0x6c61775f6770     /* pg_wal */
#define PG_XACT	  0x746361785f6770   /* pg_xact */
#define PG_SUBTR  0x72746275735f6770 /* pg_subtrans */
#define PG_MULTI  0x69746c756d5f6770 /* pg_multixact */
#define PG_COMMI  0x696d6d6f635f6770 /* pg_commit_ts */
#define PG_NOTIF  0x6669746f6e5f6770 /* pg_notify */
#define PG_SERIAL 0x61697265735f6770 /* pg_serial */

#define WAL_NAME 24 /* XLOG_FNAME_LEN */

enum pgt_place { NAME_OF, PARENT, GRANDPARENT, ANCESTOR };

static __always_inline __u64 beginning(struct pgt_file_entry *entry, __u32 which)
{
	return *(__u64 *)entry->path[which];
}

static __always_inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* What all segments of a relation have in common: its number and the letter of its fork, if any;
 * and of the database's number what there is room for. No other file of the database has that as a
 * rule: numbers come of one counter, and until it begins anew none is given out in two tablespaces.
 */
static __always_inline __u64 identity_of(__u64 database, __u64 number, __u64 fork)
{
	return database << 40 | number << 8 | fork;
}

#define LONGEST_NUMBER 10

/* The number that a directory's name is, as a database's has it; 0 for "global", as in the server.
 */
static __noinline int database_of(struct pgt_file_entry *entry)
{
	__u64 c, digit, live = 1, number = 0;
	__u32 i;

	if (!entry)
		return 0;
	for (i = 0; i < LONGEST_NUMBER; i++) {
		c = (__u8)entry->path[PARENT][i];
		digit = within(c, '0', '9');
		live &= digit;
		number = number * (1 + 9 * live) + (c - '0') * live;
	}
	return number;
}

#define LONGEST 28 /* t99999_4294967295_init.99999, and what is longer is none */

enum pgt_part { NUMBER, FORK, SEGMENT };

/* "16385", "16385_vm", "16385.1", and of a temporary table "t3_16385_fsm.2". Sets the kind,
 * the number and the fork, and where the file begins; false if it is no such name. */
static __noinline int parse_relation(struct pgt_file_entry *entry)
{
	__u64 c, digit, part = NUMBER, number = 0, fork = 0, segment = 0, digits = 0;
	__u64 live = 1, owner, here, counts, begins, good = 1;
	__u32 i;

	if (!entry)
		return 0;
	owner = equal((__u8)entry->path[NAME_OF][0], 't'); /* up to the first '_' */
	for (i = 0; i < LONGEST; i++) {
		c = (__u8)entry->path[NAME_OF][i];
		live &= equal(c, 0) ^ 1;
		here = live & (owner ^ 1);
		owner &= equal(c, '_') ^ 1;
		digit = within(c, '0', '9') & here;
		counts = digit & equal(part, NUMBER);
		number = number * (1 + 9 * counts) + (c - '0') * counts;
		digits |= counts;
		good &= counts | (here ^ 1) | (less(0, part) | equal(c, '_') | equal(c, '.'));
		counts = digit & equal(part, SEGMENT);
		segment = segment * (1 + 9 * counts) + (c - '0') * counts;
		good &= counts | (here ^ 1) | (equal(part, SEGMENT) ^ 1);
		counts = here & equal(part, FORK) & within(c, 'a', 'z');
		fork += c * (counts & equal(fork, 0));
		good &= counts | (here ^ 1) | (equal(part, FORK) ^ 1) | equal(c, '.');
		begins = here & equal(c, '_') & equal(part, NUMBER);
		part += begins;
		begins = here & equal(c, '.');
		part += (SEGMENT - part) * begins;
	}
	if (!good || !digits)
		return 0;
	entry->relation = identity_of((__u32)database_of(entry), number, fork);
	entry->base = segment * options.segment_bytes;
	entry->kind = fork == 'v' ? VISIBILITY_MAP : fork == 'f' ? FREE_SPACE_MAP : RELATION;
	return 1;
}

static __always_inline bool is_slru(struct pgt_file_entry *entry)
{
	switch (beginning(entry, PARENT)) {
	case PG_XACT:
	case PG_SUBTR:
	case PG_COMMI:
	case PG_NOTIF:
	case PG_SERIAL:
		return true;
	}
	return beginning(entry, GRANDPARENT) == PG_MULTI;
}

/* "00000001000000A9000000FF", wherever it lies: pg_wal is often a link to another disk. */
static __noinline int is_wal(struct pgt_file_entry *entry)
{
	__u32 i;
	char c;

	if (!entry)
		return 0;
	for (i = 0; i < WAL_NAME; i++) {
		c = entry->path[NAME_OF][i];
		if (!is_digit(c) && (c < 'A' || c > 'F'))
			return 0;
	}
	return !entry->path[NAME_OF][WAL_NAME];
}

/* Fills the entry but for its inode and device. The directory of a tablespace is that of the
 * databases: base, or PG_15_202209061; or global. */
static __noinline int recognise(struct file *file, struct pgt_file_entry *entry)
{
	__u64 numbers[COMPONENTS] = {};
	struct dentry *dentry, *parent;
	struct inode *inode;
	bool global;
	__u32 i;

	if (!file || !entry)
		return 0;
	dentry = BPF_CORE_READ(file, f_path.dentry);
	for (i = 0; i < COMPONENTS; i++) {
		*(__u64 *)entry->path[i] = 0;
		if (!dentry)
			continue;
		bpf_probe_read_kernel_str(entry->path[i], COMPONENT,
					  BPF_CORE_READ(dentry, d_name.name));
		inode = BPF_CORE_READ(dentry, d_inode);
		numbers[i] = inode ? BPF_CORE_READ(inode, i_ino) : 0;
		parent = BPF_CORE_READ(dentry, d_parent);
		dentry = parent == dentry ? NULL : parent;
	}
	entry->space = entry->relation = entry->base = 0;
	entry->kind = OTHER;
	global = beginning(entry, PARENT) == GLOBAL;
	if (beginning(entry, NAME_OF) == PGSQL_TM) {
		entry->kind = TEMPORARY;
		entry->space = numbers[GRANDPARENT];
	} else if (beginning(entry, PARENT) == PGSQL_TM) {
		entry->kind = TEMPORARY;
		entry->space = numbers[ANCESTOR];
	} else if (beginning(entry, PARENT) == PG_WAL || is_wal(entry)) {
		entry->kind = WAL;
	} else if (global || is_digit(entry->path[PARENT][0])) {
		if (parse_relation(entry))
			entry->space = global ? numbers[PARENT] : numbers[GRANDPARENT];
	} else if (is_slru(entry)) {
		entry->kind = SLRU;
	}
	return 0;
}

#endif
