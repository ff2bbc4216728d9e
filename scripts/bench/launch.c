// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Runs a command and prints "NANOSECONDS LATER KIBIBYTES STATUS" on stdout: until it ended, until
 * everything that it left running had ended too, the most memory that it had resident, and what
 * wait4() says of its end. What the command prints goes to stderr. A program of its own, because a
 * process starts with the peak of the one that forked it.
 */
#define _GNU_SOURCE
#include <err.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv)
{
	long long begin, ended;
	struct rusage usage;
	int status;
	pid_t pid;

	if (argc < 2)
		errx(2, "usage: launch COMMAND...");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		err(1, "prctl");
	begin = now();
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
	ended = now();
	while (wait(NULL) > 0)
		;
	printf("%lld %lld %ld %d\n", ended - begin, now() - begin, usage.ru_maxrss, status);
	return 0;
}
