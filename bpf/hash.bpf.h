/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Hashes of texts, by which statements without a query id are told apart. */
#ifndef HASH_BPF_H
#define HASH_BPF_H

#include "branchless.bpf.h"
#include "scanner.bpf.h"
#include "tasks.bpf.h"

#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

#define HASHED 16 /* characters at a time */

/* How '..' with a backslash before a quote is read */
enum pgt_reading { STANDARD, WITH_ESCAPES };

/* All ones if the entry has the bit. No comparison: the compiler may turn those into branches. */
static __always_inline __u64 mask(__u32 entry, __u32 bit)
{
	__u64 result = (entry >> __builtin_ctz(bit)) & 1;

	asm volatile("" : "+r"(result));
	return -result;
}

static __always_inline __u64 chosen(__u64 mask, __u64 yes, __u64 no)
{
	return no ^ ((yes ^ no) & mask);
}

static __always_inline __u64 with_word(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * FNV_PRIME;
	return hash ^ hash >> 32; /* else high bits would never come to be low ones */
}

/* What most characters do not need. Returns the next state. */
static __always_inline __u64 scan_seldom(struct pgt_hashing *h, __u32 entry, __u64 c)
{
	__u64 state = entry & (STATES - 1), escaped, over, same;

	h->hash = chosen(mask(entry, REVERT), h->saved, h->hash);
	h->saved = chosen(mask(entry, SAVE), h->hash, h->saved);

	escaped = mask(entry, ESCAPED_QUOTE);
	h->ambiguous |= escaped & h->plain;
	state = chosen(escaped & h->escapes, S_STRING, state);
	over = mask(entry, OPEN_PLAIN) | mask(entry, OPEN_ESCAPED) | mask(entry, OPEN_RAW);
	h->plain = chosen(over, mask(entry, OPEN_PLAIN), h->plain);
	h->escapes = chosen(
	    over, mask(entry, OPEN_ESCAPED) | (mask(entry, OPEN_PLAIN) & -h->reading), h->escapes);

	same = mask(entry, TAG_COMPARE) & -equal(h->tag >> 1, h->opened >> 1);
	state = chosen(same, S_BETWEEN, state);
	h->opened = chosen(mask(entry, TAG_KEEP), h->tag, h->opened);
	h->tag = chosen(mask(entry, TAG_EMPTY), FNV_BASIS, h->tag);
	h->tag = chosen(mask(entry, TAG_ADD), (h->tag ^ c) * FNV_PRIME, h->tag);

	h->depth += mask(entry, SHALLOWER) - mask(entry, DEEPER);
	return chosen(mask(entry, SHALLOWER) & -equal(h->depth, 0), S_BETWEEN, state);
}

static __always_inline void scan_character(struct pgt_hashing *h, __u64 c)
{
	__u32 entry = scanner[h->state & (STATES - 1)][character_classes[c] & (CLASSES - 1)];
	__u64 symbol;

	h->state = entry & (STATES - 1);
	if (entry & SELDOM)
		h->state = scan_seldom(h, entry, c);
	symbol = ((c | h->blank) & mask(entry, EMIT)) | (entry & (LITERAL | RANGE));
	h->hash = chosen(mask(entry, MIX), (h->hash ^ symbol) * FNV_PRIME, h->hash);
	h->blank = (h->blank | entry) & ~(entry >> 1) & BLANK;
}

/* Not static, as what follows: the verifier looks at each once, and not once for each way there. */
__noinline int hash_part(__u32 scratch_index, __u32 task_index, __u32 from)
{
	struct pgt_task *scratch = task_at(scratch_index), *task = task_at(task_index);
	struct pgt_hashing h;
	__u32 i;

	if (!scratch || !task)
		return 0;
	h = scratch->hashing;
	for (i = 0; i < HASHED; i++, from++) {
		if (from >= TEXT || from >= task->query.text_length)
			break;
		scan_character(&h, (__u8)task->query.text[from]);
	}
	scratch->hashing = h;
	return 0;
}

/* FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/) of the symbols of a text: of each character
 * that is in no literal and no comment, whether white space comes before it, and one for a
 * literal. collector/pgtrace/postgres/statement_hash.py says the same in Python, and tests compare
 * the two. */
__noinline int hash_statement(__u32 scratch_index, __u32 task_index, __u32 reading)
{
	struct pgt_task *scratch = task_at(scratch_index), *task = task_at(task_index);
	__u32 from;

	if (!scratch || !task)
		return 0;
	__builtin_memset(&scratch->hashing, 0, sizeof(scratch->hashing));
	scratch->hashing.hash = FNV_BASIS;
	scratch->hashing.state = S_BETWEEN;
	scratch->hashing.blank = BLANK;
	scratch->hashing.reading = reading;
	for (from = 0; from < TEXT && from < task->query.text_length; from += HASHED)
		hash_part(scratch_index, task_index, from);
	return 0;
}

__noinline int hash_bytes(__u32 scratch_index, __u32 task_index, __u32 from)
{
	struct pgt_task *scratch = task_at(scratch_index), *task = task_at(task_index);
	__u64 hash;
	__u32 i;

	if (!scratch || !task)
		return 0;
	hash = scratch->hashing.hash;
	for (i = 0; i < HASHED; i++, from++) {
		if (from >= TEXT || from >= task->query.text_length)
			break;
		hash = (hash ^ (__u8)task->query.text[from]) * FNV_PRIME;
	}
	scratch->hashing.hash = hash;
	return 0;
}

/* Of a text as it is. */
__noinline int hash_whole(__u32 scratch_index, __u32 task_index)
{
	struct pgt_task *scratch = task_at(scratch_index), *task = task_at(task_index);
	__u32 from;

	if (!scratch || !task)
		return 0;
	scratch->hashing.hash = FNV_BASIS;
	for (from = 0; from < TEXT && from < task->query.text_length; from += HASHED)
		hash_bytes(scratch_index, task_index, from);
	return 0;
}

/* Such texts are statements of their own: of a file's statement the text is that of the first call,
 * and theirs cannot be told without literals. */
#define INCOMPLETE 1 /* it ends within a literal, a quoted name or a comment */
#define EITHER	   2 /* how it is read follows from where it ends */

/* Of a task's query. Its parallel workers may ask for it at the same time: each has its own
 * scratch.
 *
 * Whether backslashes escape in '..' is a setting of the session. Where it matters, that reading is
 * taken by which the text comes to an end. If both do, or none, or if the text was cut, then
 * statements are rather told apart by a literal than taken for one: the whole text counts. */
static __always_inline __u64 text_hash(struct pgt_task *scratch, struct pgt_task *task)
{
	struct pgt_hashing *h = &scratch->hashing;
	__u64 hash, incomplete;

	if (!options.literals) {
		hash_statement(scratch->index, task->index, STANDARD);
		hash = h->hash;
		incomplete = h->state <= S_NAME;
		if (!h->ambiguous)
			return incomplete && !task->query.cut ? hash ^ INCOMPLETE : hash;
		hash_statement(scratch->index, task->index, WITH_ESCAPES);
		if (incomplete != (h->state <= S_NAME) && !task->query.cut)
			return (incomplete ? h->hash : hash) ^ EITHER;
	}
	hash_whole(scratch->index, task->index);
	return h->hash;
}

#endif
