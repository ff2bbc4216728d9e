/*
 * A simulated storage device: the part of scripts/storage that answers requests.
 *
 *     storage SIZE LOG ssd LATENCY_NS
 *     storage SIZE LOG hdd RPM SEEK_MIN_NS SEEK_AVG_NS SEEK_MAX_NS BYTES_PER_S
 *
 * It serves one file from its memory by FUSE, attaches a loop device to it, prints the name of
 * that device, and lets go of it at the end of its standard input. From then on only those who
 * have the device open, such as a mount, hold it; when the last of them is gone, the kernel
 * detaches the loop device, closes the file, and this program ends. The file is mounted in a
 * mount namespace of its own: whatever happens, nothing of it stays behind.
 *
 * Each request takes the time that the model says, seen from the device's user, and is written to
 * LOG before it is answered: "START KIND OFFSET LENGTH DURATION MODEL", nanoseconds of
 * CLOCK_MONOTONIC and bytes.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 312
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/loop.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "storage_model.h"

#define SECOND_NS   1000000000LL
#define AT_ONCE	    64	   /* requests; more wait in the kernel */
#define MEASURED    200	   /* requests of each size, to know how long the way to here is */
#define MEASURED_AT 200000 /* ns, at most, that each of them takes */
#define SMALL	    4096
#define LARGE	    (128 << 10)
#define FILE_INODE  2

/* A request that is served from `start` on, and how long by the model. */
struct taken {
	int64_t start, model_ns;
};

static int64_t size, latency_ns;
static bool is_disk;
static struct disk disk;
static char *data, name[32];
static int log_file = -1;
static double way_ns, way_ns_per_byte; /* from the device's user to here and back */
static _Atomic int64_t late_ns;	       /* how late sleeps usually end */
static _Atomic int64_t last_ns;	       /* how long the last request took here */

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static struct taken take(int64_t offset, size_t length)
{
	struct taken taken = {now_ns(), latency_ns};

	if (is_disk)
		taken.model_ns = disk_serve(&disk, taken.start, offset, length);
	return taken;
}

/* A disk has written before it answered: nothing is left to do. */
static struct taken take_flush(void)
{
	return (struct taken){now_ns(), is_disk ? 0 : latency_ns};
}

static void sleep_until(int64_t end)
{
	int64_t wake = end - late_ns;
	struct timespec until = {wake / SECOND_NS, wake % SECOND_NS};

	if (now_ns() >= wake)
		return;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		;
	/* In equal steps, it comes to their median: one that was very late moves it no further. */
	late_ns += now_ns() > end ? 500 : -500;
}

/* Let a request take its time, for who waits for it, and log it. */
static void finish(struct taken taken, const char *kind, off_t offset, size_t length)
{
	int64_t way = way_ns + way_ns_per_byte * length;
	char line[128];
	int written;

	sleep_until(taken.start + taken.model_ns - way);
	last_ns = now_ns() - taken.start;
	written = snprintf(line, sizeof(line), "%lld %s %lld %zu %lld %lld\n",
			   (long long)taken.start, kind, (long long)offset, length,
			   (long long)last_ns + way, (long long)taken.model_ns);
	/* A log with a request missing would be believed. */
	if (log_file >= 0 && write(log_file, line, written) != written)
		err(1, "the log");
}

static void describe(fuse_ino_t inode, struct stat *status)
{
	*status = (struct stat){.st_ino = inode, .st_nlink = 1, .st_mode = S_IFDIR | 0700};
	if (inode == FILE_INODE) {
		status->st_mode = S_IFREG | 0600;
		status->st_size = size;
	}
}

static void on_init(void *unused, struct fuse_conn_info *connection)
{
	(void)unused;
	connection->max_background = AT_ONCE;
}

static void on_lookup(fuse_req_t request, fuse_ino_t parent, const char *wanted)
{
	struct fuse_entry_param entry = {.ino = FILE_INODE};

	(void)parent;
	describe(FILE_INODE, &entry.attr);
	if (strcmp(wanted, name))
		fuse_reply_err(request, ENOENT);
	else
		fuse_reply_entry(request, &entry);
}

static void on_getattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file)
{
	struct stat status;

	(void)file;
	describe(inode, &status);
	fuse_reply_attr(request, &status, 0);
}

static void on_open(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file)
{
	(void)inode;
	file->direct_io = 1; /* no page cache below the device */
	fuse_reply_open(request, file);
}

static void on_read(fuse_req_t request, fuse_ino_t inode, size_t length, off_t offset,
		    struct fuse_file_info *file)
{
	(void)inode, (void)file;
	if (offset + (off_t)length > size)
		length = offset < size ? size - offset : 0;
	finish(take(offset, length), "read", offset, length);
	fuse_reply_buf(request, data + offset, length);
}

static void on_write(fuse_req_t request, fuse_ino_t inode, const char *from, size_t length,
		     off_t offset, struct fuse_file_info *file)
{
	struct taken taken;

	(void)inode, (void)file;
	if (offset + (off_t)length > size) {
		fuse_reply_err(request, ENOSPC);
		return;
	}
	taken = take(offset, length);
	memcpy(data + offset, from, length);
	finish(taken, "write", offset, length);
	fuse_reply_write(request, length);
}

static void on_fsync(fuse_req_t request, fuse_ino_t inode, int data_only,
		     struct fuse_file_info *file)
{
	(void)inode, (void)data_only, (void)file;
	finish(take_flush(), "flush", 0, 0);
	fuse_reply_err(request, 0);
}

static void *serve(void *session)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();

	/* A disk has one head: its requests wait in the kernel, in their order. */
	fuse_loop_cfg_set_max_threads(config, is_disk ? 1 : AT_ONCE);
	fuse_loop_cfg_set_idle_threads(config, is_disk ? 1 : AT_ONCE);
	fuse_session_loop_mt(session, config);
	return NULL;
}

/* Serve the file, and return it, open. */
static int open_file(char *program, pthread_t *server)
{
	static const char directory[] = "/tmp"; /* in a mount namespace of our own */
	static const struct fuse_lowlevel_ops operations = {
	    .init = on_init,
	    .lookup = on_lookup,
	    .getattr = on_getattr,
	    .open = on_open,
	    .read = on_read,
	    .write = on_write,
	    .fsync = on_fsync,
	};
	struct fuse_args args = FUSE_ARGS_INIT(1, &program);
	struct fuse_session *session;
	char path[64];
	int file;

	/* What others unmount, such as another simulated device, is not to be held here. */
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		err(1, "a mount namespace");
	session = fuse_session_new(&args, &operations, sizeof(operations), NULL);
	if (!session || fuse_session_mount(session, directory))
		errx(1, "FUSE cannot be mounted");
	if (pthread_create(server, NULL, serve, session))
		errx(1, "no thread");
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0)
		err(1, "%s", path);
	/* It stays as long as the file is open. */
	if (umount2(directory, MNT_DETACH))
		err(1, "%s", directory);
	return file;
}

/* Attach a free loop device, which the kernel detaches when it was closed for the last time. */
static int attach(int file, char *path, size_t path_size)
{
	struct loop_config config = {.fd = file,
				     .info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number, device;

	if (control < 0)
		err(1, "/dev/loop-control");
	for (;;) {
		number = ioctl(control, LOOP_CTL_GET_FREE);
		if (number < 0)
			err(1, "no free loop device");
		snprintf(path, path_size, "/dev/loop%d", number);
		device = open(path, O_RDWR | O_CLOEXEC | O_DIRECT);
		if (device < 0)
			err(1, "%s", path);
		if (!ioctl(device, LOOP_CONFIGURE, &config))
			break;
		if (errno != EBUSY) /* somebody else was faster */
			err(1, "%s", path);
		close(device);
	}
	close(control);
	return device;
}

static int compare(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

/* The time that a read of this length spends outside of this program: the lowest decile, as
 * whatever else the machine does at this moment only adds to it. On a busy host, whose virtual CPUs
 * wake late, it added 400 us to every other read, and a device would have been too fast ever after.
 */
static int64_t measure_way(int device, size_t length)
{
	char *buffer = aligned_alloc(SMALL, length);
	int64_t ways[MEASURED];

	for (int i = 0; i < MEASURED; i++) {
		int64_t start = now_ns();

		if (pread(device, buffer, length, i * length) != (ssize_t)length)
			err(1, "the simulated device");
		ways[i] = now_ns() - start - last_ns;
	}
	free(buffer);
	qsort(ways, MEASURED, sizeof(*ways), compare);
	return ways[MEASURED / 10];
}

static void measure(int device)
{
	int64_t small, large, asked_ns = latency_ns;
	bool was_disk = is_disk;

	is_disk = false;
	if (was_disk || latency_ns > MEASURED_AT)
		latency_ns = MEASURED_AT;
	small = measure_way(device, SMALL);
	large = measure_way(device, LARGE);
	way_ns_per_byte = large > small ? (double)(large - small) / (LARGE - SMALL) : 0;
	way_ns = small - way_ns_per_byte * SMALL;
	latency_ns = asked_ns;
	is_disk = was_disk;
}

static void read_model(int count, char **words)
{
	int64_t numbers[5] = {0};

	for (int i = 1; i < count && i <= 5; i++)
		numbers[i - 1] = atoll(words[i]);
	if (count == 2 && !strcmp(words[0], "ssd"))
		latency_ns = numbers[0];
	else if (count == 6 && !strcmp(words[0], "hdd"))
		disk_init(&disk, size, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]);
	else
		errx(2, "usage: storage SIZE LOG ssd LATENCY_NS\n"
			"       storage SIZE LOG hdd RPM SEEK_MIN_NS SEEK_AVG_NS SEEK_MAX_NS "
			"BYTES_PER_S");
	is_disk = count == 6;
	snprintf(name, sizeof(name), "simulated-%s", words[0]);
}

/* Our mount namespace would hold whatever else was mounted when it began, such as another simulated
 * device: that could not end before us. From here on no path leads anywhere. */
static void forget_mounts(void)
{
	if (umount2("/", MNT_DETACH))
		err(1, "the mounts");
}

/* Its lock says that we are alive. */
static void open_log(const char *path)
{
	int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (file < 0 || flock(file, LOCK_EX | LOCK_NB) || ftruncate(file, 0))
		err(1, "%s", path);
	log_file = file;
}

int main(int argc, char **argv)
{
	char path[32], byte;
	pthread_t server;
	int file, device, nothing;

	if (argc < 4)
		errx(2, "usage: storage SIZE LOG MODEL");
	size = atoll(argv[1]);
	read_model(argc - 3, argv + 3);
	data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	if (data == MAP_FAILED)
		err(1, "memory");
	/* Threads inherit it: a sleep ends when it should, not up to 50 us later. */
	prctl(PR_SET_TIMERSLACK, 1);
	setsid(); /* Ctrl-C is not for us */
	file = open_file(argv[0], &server);
	device = attach(file, path, sizeof(path));
	close(file);
	measure(device);
	open_log(argv[2]);
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (nothing < 0)
		err(1, "/dev/null");
	forget_mounts();

	puts(path);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	/* Whoever waits for the end of our output is not to wait for our end. */
	for (int i = 0; i < 3; i++)
		dup2(nothing, i);
	close(device);
	pthread_join(server, NULL);
	return 0;
}
