/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Hashes of texts, by which statements without a query id are told apart. */
#ifndef HASH_BPF_H
#define HASH_BPF_H

#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

#define HASHED 64 /* characters at a time */

/* FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/) of the text without its numbers and
 * strings, or, where what is a literal depends on more than quotes, of the text as it is.
 * collector/pgtrace/statement.py says the same in Python, and a test compares the two.
 *
 * Not static, as what follows: the verifier looks at each once, and not once for each way there. */
__noinline int hash_part(__u32 scratch_index, __u32 task_index, __u32 from)
{
	struct task *scratch = task_at(scratch_index), *task = task_at(task_index);
	__u64 c, quote, digit, after, emit;
	struct hashing h;
	__u32 i;

	if (!scratch || !task)
		return 0;
	h = scratch->hashing;
	for (i = 0; i < HASHED; i++, from++) {
		if (from >= TEXT || from >= task->query.text_length)
			break;
		c = (__u8)task->query.text[from];
		quote = equal(c, '\'');
		digit = within(c, '0', '9');
		h.unsafe |= equal(c, '"') | equal(c, '$') | equal(c, '\\') |
			    (equal(c, '-') & equal(h.previous, '-')) |
			    (equal(c, '*') & equal(h.previous, '/'));
		after = (h.string ^ 1) &
			((digit & (h.word ^ 1)) | (h.number & (digit | equal(c, '.'))));
		emit = ((h.string & (quote ^ 1)) | (h.number & after)) ^ 1;
		h.word = digit | within(c | 0x20, 'a', 'z') | equal(c, '_') | (c >> 7);
		h.previous = c;
		h.number = after;
		h.string ^= quote;
		h.whole = (h.whole ^ c) * FNV_PRIME;
		c = c * (after ^ 1) + '0' * after;
		h.without = ((h.without ^ c) * FNV_PRIME) * emit + h.without * (emit ^ 1);
	}
	scratch->hashing = h;
	return 0;
}

/* Of a task's query. Its parallel workers may ask for it at the same time: each has its own
 * scratch. */
static __always_inline __u64 text_hash(struct task *scratch, struct task *task)
{
	__u32 from;

	scratch->hashing = (struct hashing){.whole = FNV_BASIS, .without = FNV_BASIS};
	for (from = 0; from < TEXT && from < task->query.text_length; from += HASHED)
		hash_part(scratch->index, task->index, from);
	if (options.literals || scratch->hashing.unsafe)
		return scratch->hashing.whole;
	return scratch->hashing.without;
}

static __always_inline __u64 name_hash(const char *name)
{
	__u64 hash = FNV_BASIS;
	__u32 i;

	for (i = 0; i < NAME && name[i]; i++)
		hash = (hash ^ (__u8)name[i]) * FNV_PRIME;
	return hash;
}

#endif
