// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A pinned loop of one system call: reads "pread COUNT", "turns COUNT" or "getppid COUNT" from
 * stdin, makes that many calls, and prints the nanoseconds of CPU that all of them took. 8 KiB
 * reads, one block after the other of a small file that stays in the page cache; "turns" reads a
 * block of each file in turn.
 *
 * Not the time that passed: a run is about as long as the scheduler's slice, so that beside another
 * task a run that is traced leaves the CPU in its middle, and one that is not does not.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SIZE  8192
#define FILES 16

static char buffer[SIZE] __attribute__((aligned(4096)));

static void read_blocks(const int *fds, int files, long count, off_t size)
{
	off_t position = 0;
	int file = 0;

	for (long i = 0; i < count; i++) {
		if (pread(fds[file], buffer, SIZE, position) != SIZE)
			err(1, "pread");
		if (++file < files)
			continue;
		file = 0;
		position = (position + SIZE) % size;
	}
}

int main(int argc, char **argv)
{
	struct timespec begin, end;
	struct stat status;
	char line[64];
	cpu_set_t cpu;
	int fds[FILES], files = argc - 2;
	off_t sizes[FILES];
	long count;

	if (files < 1 || files > FILES)
		errx(2, "usage: loop CPU FILE... (the last is the smallest)");
	CPU_ZERO(&cpu);
	CPU_SET(atoi(argv[1]), &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu))
		err(1, "CPU %s", argv[1]);
	for (int i = 0; i < files; i++) {
		fds[i] = open(argv[i + 2], O_RDONLY);
		if (fds[i] < 0 || fstat(fds[i], &status))
			err(1, "%s", argv[i + 2]);
		sizes[i] = status.st_size;
	}
	while (fgets(line, sizeof(line), stdin)) {
		int reads = sscanf(line, "pread %ld", &count) == 1;

		if (!reads && sscanf(line, "turns %ld", &count) == 1)
			reads = files;
		if (!reads && sscanf(line, "getppid %ld", &count) != 1)
			errx(2, "what is %s?", line);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
		if (reads)
			read_blocks(fds, reads, count, sizes[reads - 1]);
		else
			for (long i = 0; i < count; i++)
				syscall(SYS_getppid);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
		printf("%lld\n",
		       (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
		fflush(stdout);
	}
	return 0;
}
