// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A known workload as reader.c is: makes exactly N write calls on one file, and an fsync or its
 * like after every so many of them.
 *
 * Prints "ready" when the file is open; waits for a line on stdin; writes; prints
 * "FULL SHORT FAILED BYTES NANOSECONDS SYNCS"; waits for another line; ends.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MAX_PARTS 64

static const char usage[] =
    "usage: writer [options] FILE\n"
    "  --call pwrite|write|writev|pwritev|pwritev2   default pwrite\n"
    "  --count N      write calls (default 1000), in order\n"
    "  --size S       bytes per call (default 8192)\n"
    "  --parts P      buffers per writev (default 2)\n"
    "  --wrap N       after N calls from the start of the file again (default 2048)\n"
    "  --sync fsync|fdatasync|sync_file_range\n"
    "  --every N      writes between two of these (default 10)\n"
    "  --dsync        O_DSYNC\n"
    "  --direct       O_DIRECT\n";

enum call { PWRITE, WRITE, WRITEV, PWRITEV, PWRITEV2, CALLS };
static const char *const call_names[CALLS] = {"pwrite", "write", "writev", "pwritev", "pwritev2"};
enum sync { FSYNC, FDATASYNC, SYNC_FILE_RANGE, SYNCS };
static const char *const sync_names[SYNCS] = {"fsync", "fdatasync", "sync_file_range"};

static struct {
	enum call call;
	enum sync sync;
	long count, wrap, every;
	size_t size;
	int parts, dsync, direct, syncs;
} opt = {.count = 1000, .wrap = 2048, .every = 10, .size = 8192, .parts = 2};

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
	    {"call", 1, NULL, 'c'},
	    {"count", 1, NULL, 'n'},
	    {"size", 1, NULL, 's'},
	    {"parts", 1, NULL, 'p'},
	    {"wrap", 1, NULL, 'w'},
	    {"sync", 1, NULL, 'y'},
	    {"every", 1, NULL, 'e'},
	    {"dsync", 0, &opt.dsync, O_DSYNC},
	    {"direct", 0, &opt.direct, O_DIRECT},
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
		case 'w':
			opt.wrap = atol(optarg);
			break;
		case 'y':
			opt.syncs = 1;
			while (opt.sync < SYNCS && strcmp(optarg, sync_names[opt.sync]))
				opt.sync++;
			break;
		case 'e':
			opt.every = atol(optarg);
			break;
		case '?':
			errx(2, "%s", usage);
		}
	}
	if (optind != argc - 1 || opt.call == CALLS || opt.sync == SYNCS || opt.parts < 1 ||
	    opt.parts > MAX_PARTS || opt.size < (size_t)opt.parts || opt.wrap < 1 || opt.every < 1)
		errx(2, "%s", usage);
}

static void wait_for_line(void)
{
	char c = 0;

	while (c != '\n')
		if (read(STDIN_FILENO, &c, 1) <= 0)
			exit(1);
}

static ssize_t write_once(int fd, char *buffer, off_t position)
{
	struct iovec parts[MAX_PARTS];
	size_t each = opt.size / opt.parts;

	for (int i = 0; i < opt.parts; i++)
		parts[i] = (struct iovec){buffer + i * each, each};
	parts[opt.parts - 1].iov_len = opt.size - (opt.parts - 1) * each;

	switch (opt.call) {
	case WRITE:
		return write(fd, buffer, opt.size);
	case WRITEV:
		return writev(fd, parts, opt.parts);
	case PWRITEV:
		return pwritev(fd, parts, opt.parts, position);
	case PWRITEV2:
		return pwritev2(fd, parts, opt.parts, position, 0);
	default:
		return pwrite(fd, buffer, opt.size, position);
	}
}

static int sync_once(int fd)
{
	switch (opt.sync) {
	case FDATASYNC:
		return fdatasync(fd);
	case SYNC_FILE_RANGE:
		return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	default:
		return fsync(fd);
	}
}

int main(int argc, char **argv)
{
	long full = 0, short_ = 0, failed = 0, bytes = 0, syncs = 0;
	struct timespec begin, end;
	char *buffer;
	int fd;

	parse(argc, argv);
	buffer = mmap(NULL, opt.size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buffer == MAP_FAILED)
		err(1, "mmap");
	fd = open(argv[optind], O_WRONLY | O_CREAT | opt.dsync | opt.direct, 0600);
	if (fd < 0)
		err(1, "%s", argv[optind]);

	puts("ready");
	fflush(stdout);
	wait_for_line();

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (long i = 0; i < opt.count; i++) {
		off_t position = i % opt.wrap * opt.size;
		ssize_t put;

		/* write and writev go where the last one ended */
		if ((opt.call == WRITE || opt.call == WRITEV) && !position)
			lseek(fd, 0, SEEK_SET);
		put = write_once(fd, buffer, position);
		if (put < 0)
			failed++;
		else if ((size_t)put < opt.size)
			short_++;
		else
			full++;
		bytes += put > 0 ? put : 0;
		if (opt.syncs && i % opt.every == opt.every - 1) {
			if (sync_once(fd))
				err(1, "%s", sync_names[opt.sync]);
			syncs++;
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &end);

	printf("%ld %ld %ld %ld %lld %ld\n", full, short_, failed, bytes,
	       (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec, syncs);
	fflush(stdout);
	wait_for_line();
	return 0;
}
