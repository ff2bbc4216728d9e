/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Texts that were seen before, and their hashes. */
#ifndef KNOWN_BPF_H
#define KNOWN_BPF_H

#define TEXTS 4096 /* whose hash is known */

/* By the words of a text, what text_hash() says of it: looking at each character takes long. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TEXTS);
	__type(key, __u64);
	__type(value, __u64);
} pgt_texts SEC(".maps");

__noinline int hash_words(__u32 scratch_index, __u32 task_index)
{
	struct task *scratch = task_at(scratch_index), *task = task_at(task_index);
	__u64 hash = FNV_BASIS, word;
	__u32 i, left;

	if (!scratch || !task)
		return 0;
	for (i = 0; i < TEXT / 8 && i * 8 < task->query.text_length; i++) {
		word = ((__u64 *)task->query.text)[i];
		left = task->query.text_length - i * 8;
		if (left < 8)
			word &= (1ull << left * 8) - 1;
		hash = (hash ^ word) * FNV_PRIME;
		hash ^= hash >> 32; /* else high bits would never come to be low ones */
	}
	scratch->hashing.hash = hash ^ task->query.text_length << 1 ^ task->query.cut;
	return 0;
}

static __always_inline __u64 known_hash(struct task *scratch, struct task *task)
{
	__u64 words, hash, *known;

	hash_words(scratch->index, task->index);
	words = scratch->hashing.hash;
	known = bpf_map_lookup_elem(&pgt_texts, &words);
	if (known)
		return *known;
	hash = text_hash(scratch, task);
	bpf_map_update_elem(&pgt_texts, &words, &hash, BPF_ANY);
	return hash;
}

#endif
