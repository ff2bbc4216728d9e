// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A known workload: makes exactly N read calls on one file, and no other read of a file.
 *
 * Prints "ready" when the file is open, warm if asked, and the buffer mapped, so that nothing but
 * the N calls happens while a tracer is attached; waits for a line on stdin; reads; prints
 * "FULL SHORT FAILED BYTES NANOSECONDS"; waits for another line (the tracer detaches); ends.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MAX_PARTS 64

static const char usage[] =
    "usage: reader [options] FILE\n"
    "  --call pread|read|readv|preadv|preadv2   default pread\n"
    "  --count N        read calls (default 1000)\n"
    "  --size S         bytes per call (default 8192)\n"
    "  --parts P        buffers per readv (default 2)\n"
    "  --random SEED    blocks in random order; else in order, from the start again at the end\n"
    "  --step N         blocks from the start of a read to that of the next (default 1)\n"
    "  --backwards      from the last block to the first\n"
    "  --advise normal|sequential|random   tell the kernel so (posix_fadvise)\n"
    "  --end            each read begins S/2 bytes before the end of the file: short\n"
    "  --past           each read begins at the end of the file: 0 bytes\n"
    "  --fail ebadf|noread|eisdir|efault   each read fails (eisdir: FILE is a directory)\n"
    "  --direct         O_DIRECT\n"
    "  --warm           read the file into the page cache before \"ready\"\n";

enum call { PREAD, READ, READV, PREADV, PREADV2, CALLS };
static const char *const call_names[CALLS] = {"pread", "read", "readv", "preadv", "preadv2"};

static struct {
	enum call call;
	long count, step;
	size_t size;
	int parts;
	uint64_t seed;
	int random, backwards, end, past, direct, warm, advice;
	const char *fail;
} opt = {.count = 1000, .step = 1, .size = 8192, .parts = 2, .fail = ""};

static int advice_of(const char *word)
{
	if (!strcmp(word, "sequential"))
		return POSIX_FADV_SEQUENTIAL;
	if (!strcmp(word, "random"))
		return POSIX_FADV_RANDOM;
	return strcmp(word, "normal") ? -1 : POSIX_FADV_NORMAL;
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
	    {"call", 1, NULL, 'c'},
	    {"count", 1, NULL, 'n'},
	    {"size", 1, NULL, 's'},
	    {"parts", 1, NULL, 'p'},
	    {"random", 1, NULL, 'r'},
	    {"step", 1, NULL, 't'},
	    {"advise", 1, NULL, 'a'},
	    {"fail", 1, NULL, 'f'},
	    {"backwards", 0, &opt.backwards, 1},
	    {"end", 0, &opt.end, 1},
	    {"past", 0, &opt.past, 1},
	    {"warm", 0, &opt.warm, 1},
	    {"direct", 0, &opt.direct, 1},
	    {},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			while (opt.call < CALLS && strcmp(optarg, call_names[opt.call]))
				opt.call++;
			break;
		case 'n':
			opt.count = atol(optarg);
			break;
		case 's':
			opt.size = atol(optarg);
			break;
		case 'p':
			opt.parts = atoi(optarg);
			break;
		case 'r':
			opt.random = 1;
			opt.seed = atol(optarg) * 2 + 1;
			break;
		case 't':
			opt.step = atol(optarg);
			break;
		case 'a':
			opt.advice = advice_of(optarg);
			break;
		case 'f':
			opt.fail = optarg;
			break;
		case '?':
			errx(2, "%s", usage);
		}
	}
	if (optind != argc - 1 || opt.call == CALLS || opt.parts < 1 || opt.parts > MAX_PARTS ||
	    opt.size < (size_t)opt.parts || opt.step < 1 || opt.advice < 0 ||
	    (*opt.fail && !strstr(" ebadf noread eisdir efault ", opt.fail)))
		errx(2, "%s", usage);
}

static void wait_for_line(void)
{
	char c = 0;

	while (c != '\n')
		if (read(STDIN_FILENO, &c, 1) <= 0)
			exit(1);
}

/* xorshift64: the same blocks for the same seed, on every machine */
static uint64_t next_random(void)
{
	opt.seed ^= opt.seed << 13;
	opt.seed ^= opt.seed >> 7;
	opt.seed ^= opt.seed << 17;
	return opt.seed;
}

static uint64_t block_of(long i, uint64_t blocks)
{
	uint64_t block;

	if (opt.random)
		return next_random() % blocks;
	block = (uint64_t)i * opt.step % blocks;
	return opt.backwards ? blocks - 1 - block : block;
}

static ssize_t read_once(int fd, char *buffer, off_t position)
{
	struct iovec parts[MAX_PARTS];
	size_t each = opt.size / opt.parts;

	for (int i = 0; i < opt.parts; i++)
		parts[i] = (struct iovec){buffer + i * each, each};
	parts[opt.parts - 1].iov_len = opt.size - (opt.parts - 1) * each;

	switch (opt.call) {
	case READ:
		return read(fd, buffer, opt.size);
	case READV:
		return readv(fd, parts, opt.parts);
	case PREADV:
		return preadv(fd, parts, opt.parts, position);
	case PREADV2:
		return preadv2(fd, parts, opt.parts, position, 0);
	default:
		return pread(fd, buffer, opt.size, position);
	}
}

static void warm_up(const char *path, char *buffer)
{
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		err(1, "%s", path);
	while (read(fd, buffer, opt.size) > 0)
		;
	close(fd);
}

int main(int argc, char **argv)
{
	long full = 0, short_ = 0, failed = 0, bytes = 0;
	struct timespec begin, end;
	off_t position = 0, at = 0;
	struct stat status;
	uint64_t blocks;
	char *buffer;
	int fd;

	parse(argc, argv);
	buffer = mmap(NULL, opt.size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buffer == MAP_FAILED)
		err(1, "mmap");
	if (opt.warm)
		warm_up(argv[optind], buffer);
	fd = open(argv[optind],
		  (strcmp(opt.fail, "noread") ? O_RDONLY : O_WRONLY) | (opt.direct ? O_DIRECT : 0));
	if (fd < 0 || fstat(fd, &status) < 0)
		err(1, "%s", argv[optind]);
	blocks = status.st_size / opt.size;
	if (!blocks && !*opt.fail && !opt.end && !opt.past)
		errx(1, "%s is smaller than one read", argv[optind]);
	if (opt.advice && posix_fadvise(fd, 0, 0, opt.advice))
		errx(1, "posix_fadvise failed");
	if (!strcmp(opt.fail, "ebadf"))
		close(fd);
	if (!strcmp(opt.fail, "efault"))
		buffer = (char *)4096; /* below vm.mmap_min_addr: never mapped */

	puts("ready");
	fflush(stdout);
	wait_for_line();

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (long i = 0; i < opt.count; i++) {
		ssize_t got;

		if (opt.past)
			position = status.st_size;
		else if (opt.end)
			position = status.st_size - opt.size / 2;
		else if (blocks)
			position = block_of(i, blocks) * opt.size;
		/* read and readv go where the last one ended, unless they must jump */
		if ((opt.call == READ || opt.call == READV) && at != position)
			lseek(fd, position, SEEK_SET);
		got = read_once(fd, buffer, position);
		at = position + (got > 0 ? got : 0);
		if (got < 0)
			failed++;
		else if ((size_t)got < opt.size)
			short_++;
		else
			full++;
		bytes += got > 0 ? got : 0;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);

	printf("%ld %ld %ld %ld %lld\n", full, short_, failed, bytes,
	       (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
	fflush(stdout);
	wait_for_line();
	return 0;
}
