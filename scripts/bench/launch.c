// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Runs a command and prints "NANOSECONDS KIBIBYTES STATUS" on stdout: its wall time, the most
 * memory that it had resident, and what wait4() says of its end. What the command prints goes to
 * stderr. A program of its own, because a process starts with the peak of the one that forked it.
 */
#define _GNU_SOURCE
#include <err.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec begin, end;
	struct rusage usage;
	int status;
	pid_t pid;

	if (argc < 2)
		errx(2, "usage: launch COMMAND...");
	clock_gettime(CLOCK_MONOTONIC, &begin);
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (pid == 0) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execvp(argv[1], argv + 1);
		err(127, "%s", argv[1]);
	}
	if (wait4(pid, &status, 0, &usage) != pid)
		err(1, "wait4");
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%lld %ld %d\n",
	       (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec,
	       usage.ru_maxrss, status);
	return 0;
}
