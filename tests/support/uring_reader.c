// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A known workload: makes exactly N reads of 8 KiB of one file by io_uring, as PostgreSQL does, and
 * no other read of a file.
 *
 * Prints "ready"; waits for a line on stdin; reads; prints "FULL 0 FAILED BYTES 0 0" and how many
 * threads of its own executed requests; waits for another line; ends. With `async` in place of
 * `inline` it asks for asynchronous execution, by such threads. With both, and a comma between,
 * it does so for each after a line.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define DEPTH 32
#define SIZE  8192

static struct io_uring_params params;
static char buffers[DEPTH][SIZE];
static struct iovec vectors[DEPTH];
static struct io_uring_sqe *requests;
static char *submissions, *completions;
static int ring;

static void *map(size_t size, off_t offset)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, offset);

	if (at == MAP_FAILED)
		err(1, "mmap");
	return at;
}

static void set_up(void)
{
	ring = syscall(__NR_io_uring_setup, DEPTH, &params);
	if (ring < 0)
		err(1, "io_uring_setup");
	submissions = map(params.sq_off.array + params.sq_entries * 4, IORING_OFF_SQ_RING);
	completions = map(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
			  IORING_OFF_CQ_RING);
	requests = map(params.sq_entries * sizeof(*requests), IORING_OFF_SQES);
}

static void submit(int file, unsigned i, long block, int flags)
{
	unsigned *tail = (unsigned *)(submissions + params.sq_off.tail);

	vectors[i] = (struct iovec){buffers[i], SIZE};
	memset(&requests[i], 0, sizeof(requests[i]));
	requests[i].opcode = IORING_OP_READV;
	requests[i].flags = flags;
	requests[i].fd = file;
	requests[i].addr = (unsigned long)&vectors[i];
	requests[i].len = 1;
	requests[i].off = block * SIZE;
	((unsigned *)(submissions + params.sq_off.array))[*tail & (params.sq_entries - 1)] = i;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
}

static void reap(long *full, long *failed)
{
	unsigned *head = (unsigned *)(completions + params.cq_off.head);
	unsigned *tail = (unsigned *)(completions + params.cq_off.tail);
	struct io_uring_cqe *cqes = (void *)(completions + params.cq_off.cqes);

	while (*head != __atomic_load_n(tail, __ATOMIC_ACQUIRE)) {
		*(cqes[*head & (params.cq_entries - 1)].res == SIZE ? full : failed) += 1;
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	}
}

static int executors(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int found = -3; /* ".", "..", and the first thread */

	while (readdir(tasks))
		found++;
	closedir(tasks);
	return found;
}

int main(int argc, char **argv)
{
	long count, done, i, blocks, full, failed;
	char line[8], *how;
	int file, flags;

	if (argc != 4)
		errx(2, "usage: uring_reader async|inline[,async|inline] COUNT FILE");
	count = atol(argv[2]);
	file = open(argv[3], O_RDONLY);
	if (file < 0)
		err(1, "%s", argv[3]);
	blocks = lseek(file, 0, SEEK_END) / SIZE;
	set_up();
	puts("ready");
	fflush(stdout);
	for (how = strtok(argv[1], ","); how; how = strtok(NULL, ",")) {
		if (!fgets(line, sizeof(line), stdin))
			return 1;
		flags = strcmp(how, "async") ? 0 : IOSQE_ASYNC;
		full = failed = 0;
		for (done = 0; done < count; done += i) {
			for (i = 0; i < DEPTH && done + i < count; i++)
				submit(file, i, (done + i) % blocks, flags);
			if (syscall(__NR_io_uring_enter, ring, i, i, IORING_ENTER_GETEVENTS, NULL,
				    0) != i)
				err(1, "io_uring_enter");
			reap(&full, &failed);
		}
		printf("%ld 0 %ld %ld 0 0 %d\n", full, failed, full * SIZE, executors());
		fflush(stdout);
	}
	return !fgets(line, sizeof(line), stdin);
}
