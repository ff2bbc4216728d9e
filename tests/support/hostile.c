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

static void run(const char *title)
{
	const char *program = title[0] == '/' ? title : "/proc/self/exe";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl(program, title, NULL);
	_exit(1);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!vfork()) /* which waits until the title is there */
			run(argv[i]);
	write(1, "ready\n", 6);
	for (;;)
		pause();
}
