/*
 * Runs, and holds what a PostgreSQL server's binary is known by. Each argument is the title of a
 * child; of a path that begins with a slash it is the program of one.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

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
#ifdef CHANGES
	signal(SIGUSR1, change);
#endif
	for (int i = 1; i < argc; i++)
		if (!vfork()) /* which waits until the title is there */
			run(argv[i]);
	write(1, "ready\n", 6);
	for (;;)
		pause();
}
