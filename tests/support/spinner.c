/*
 * Keeps one CPU from sleeping, at the lowest priority there is, until its parent has ended.
 *
 *     spinner CPU
 */
#define _GNU_SOURCE
#include <err.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
	struct sched_param none = {0};
	cpu_set_t own;

	if (argc != 2)
		errx(2, "usage: spinner CPU");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&own);
	CPU_SET(atoi(argv[1]), &own);
	if (sched_setaffinity(0, sizeof(own), &own) || sched_setscheduler(0, SCHED_IDLE, &none))
		err(1, "scheduling");
	for (;;)
#ifdef __x86_64__
		__builtin_ia32_pause(); /* leaves the core to its other thread */
#else
		__asm__ volatile("yield");
#endif
}
