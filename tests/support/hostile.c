/*
 * Runs, and holds what a PostgreSQL server's binary is known by. Each argument is the title of a
 * child; of a path that begins with a slash it is the program of one.
 *
 * With --held-up and a file of 4 KiB, that is what it has in the place of two variables, as has a
 * child of it. Both map something again and again: who does that keeps others out while somebody
 * reads there. With one argument more the child reads there itself.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

char update_process_title[4096] __attribute__((aligned(4096))) = {1};
char compute_query_id[4096] __attribute__((aligned(4096))) = {1};
char query_id_enabled = 1;

void PostmasterMain(void)
{
}
#ifdef VERSION
const char version[] = "postgres (PostgreSQL) " VERSION;
#endif

__asm__(".pushsection .note.stapsdt,\"\",%note\n"
	".balign 4\n"
	".4byte 8, 50, 3\n"
	".asciz \"stapsdt\"\n"
	".8byte 4096, 0, 0\n"
	".asciz \"postgresql\"\n"
	".asciz \"query__start\"\n"
	".asciz \"\"\n"
	".balign 4\n"
	".popsection\n");

static void *map_again(void *nothing)
{
	for (;;) {
		munmap(mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
		usleep(10000);
	}
}

static void read_of(int pid)
{
	char name[32], byte;
	snprintf(name, sizeof name, "/proc/%d/mem", pid);
	pread(open(name, O_RDONLY), &byte, 1, (off_t)update_process_title);
}

static int start[2];

static void hold_up(const char *name, int itself)
{
	pthread_t thread;
	int file = open(name, O_RDONLY), postmaster = getpid();
	int how = MAP_PRIVATE | MAP_FIXED, may = PROT_READ | PROT_WRITE;
	char byte = 0;
	if (mmap(update_process_title, 4096, may, how, file, 0) == MAP_FAILED ||
	    mmap(compute_query_id, 4096, may, how, file, 0) == MAP_FAILED || pipe(start))
		_exit(1);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (itself && read(start[0], &byte, 1) == 1)
			read_of(postmaster);
	}
	pthread_create(&thread, 0, map_again, 0);
}

#ifdef CHANGES
/* Has what probes of queries go into, and runs another program when it is told to. */
#define PROBE(name)                                                                                \
	__asm__ volatile("990: nop\n"                                                              \
			 ".pushsection .note.stapsdt,\"\",%%note\n"                                \
			 ".balign 4\n"                                                             \
			 ".4byte 992f - 991f, 994f - 993f, 3\n"                                    \
			 "991: .asciz \"stapsdt\"\n"                                               \
			 "992: .balign 4\n"                                                        \
			 "993: .8byte 990b, 0, 0\n"                                                \
			 ".asciz \"postgresql\"\n"                                                 \
			 ".asciz \"" name "\"\n"                                                   \
			 ".asciz \"8@%%rdi\"\n"                                                    \
			 "994: .balign 4\n"                                                        \
			 ".popsection\n"                                                           \
			 :)

#define FUNCTION(name, probe)                                                                      \
	void name(void)                                                                            \
	{                                                                                          \
		PROBE(probe);                                                                      \
	}

FUNCTION(AbortCurrentTransaction, "statement__status")
FUNCTION(PortalRun, "query__execute__done")
FUNCTION(pgstat_report_activity, "query__done")
FUNCTION(pgstat_report_query_id, "query__begin")
void *MyBEEntry;
char *debug_query_string;

static void change(int signal)
{
	execl("./other", "./other", (char *)0);
	_exit(1);
}
#endif

static void run(const char *title)
{
	const char *program = title[0] == '/' ? title : "/proc/self/exe";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl(program, title, NULL);
	_exit(1);
}

int main(int argc, char **argv)
{
	int held_up = argc > 2 && !strcmp(argv[1], "--held-up");

	if (held_up)
		hold_up(argv[2], argc > 3);
#ifdef CHANGES
	signal(SIGUSR1, change);
#endif
	for (int i = 1; i < argc && !held_up; i++)
		if (!vfork()) /* which waits until the title is there */
			run(argv[i]);
	write(1, "ready\n", 6);
	if (held_up && argc > 3)
		write(start[1], "", 1);
	for (;;)
		pause();
}
