/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Texts that were seen before, and their hashes. */
#ifndef SEEN_TEXTS_BPF_H
#define SEEN_TEXTS_BPF_H

#include "hash.bpf.h"
#include "tasks.bpf.h"

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
	struct pgt_task *scratch = task_at(scratch_index), *task = task_at(task_index);
	__u64 hash = FNV_BASIS, words, i;

	if (!scratch || !task)
		return 0;
	words = task->query.text_length / 8;
	for (i = 0; i < TEXT / 8 && i < words; i++)
		hash = with_word(hash, ((__u64 *)task->query.text)[i]);
	/* Of the last bytes, as of a whole word: a branch for them would cost the verifier a path
	 * for each length */
	words = unknown(scratch, words) & (TEXT / 8 - 1);
	hash = with_word(hash, ((__u64 *)task->query.text)[words] &
				   ((1ull << (task->query.text_length & 7) * 8) - 1));
	scratch->hashing.hash = hash ^ task->query.text_length << 1 ^ task->query.cut;
	return 0;
}

/* Leaves the hash of a query's text in the scratch of who asks. */
__noinline int hash_query(__u32 asking_index, __u32 task_index)
{
	struct pgt_task *asking = task_at(asking_index), *task = task_at(task_index);
	__u64 *known;

	if (!asking || !task || task->query.query_id || task->query.begun_before)
		return 0;
	hash_words(asking_index, task_index);
	asking->words = asking->hashing.hash;
	known = bpf_map_lookup_elem(&pgt_texts, &asking->words);
	if (known) {
		asking->hashing.hash = *known;
		return 0;
	}
	asking->hashing.hash = text_hash(asking, task);
	bpf_map_update_elem(&pgt_texts, &asking->words, &asking->hashing.hash, BPF_ANY);
	return 0;
}

#endif
