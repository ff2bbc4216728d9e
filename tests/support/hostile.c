/* Runs, and holds what a PostgreSQL server's binary is known by. */
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

int main(void)
{
	write(1, "ready\n", 6);
	for (;;)
		pause();
}
