/*
 * How long a simulated disk takes for a request: seek, rotation, transfer.
 *
 * One head serves the requests in the order in which they come. The seek takes
 * MIN + (MAX - MIN) * distance ^ p, distance being the share of the whole width, with p such that
 * the mean over all pairs of places is AVG: the rise of Ruemmler and Wilkes, "An Introduction to
 * Disk Drive Modeling", IEEE Computer 27(3), 1994, without its straight part. Nothing is random:
 * where the disk stands follows from the time, and every track holds one turn's bytes.
 */
#include <math.h>
#include "storage_model.h"

void disk_init(struct disk *disk, int64_t size, int64_t rpm, int64_t seek_min_ns,
	       int64_t seek_avg_ns, int64_t seek_max_ns, int64_t bytes_per_s)
{
	double average = (double)(seek_avg_ns - seek_min_ns) / (seek_max_ns - seek_min_ns);

	*disk = (struct disk){
	    .turn_ns = 60000000000LL / rpm,
	    .bytes_per_ns = bytes_per_s / 1e9,
	    .seek_min_ns = seek_min_ns,
	    .seek_max_ns = seek_max_ns,
	    /* The mean of distance ^ p is 2 / ((p + 1) * (p + 2)). */
	    .seek_power = (sqrt(1 + 8 / average) - 3) / 2,
	    .size = size,
	};
}

int64_t disk_seek_ns(const struct disk *disk, int64_t offset)
{
	double track = disk->turn_ns * disk->bytes_per_ns;
	double distance = fabs((double)(offset - disk->head)) / disk->size;

	if (floor(offset / track) == floor(disk->head / track))
		return 0;
	return disk->seek_min_ns +
	       (disk->seek_max_ns - disk->seek_min_ns) * pow(distance, disk->seek_power);
}

int64_t disk_wait_ns(const struct disk *disk, int64_t time, int64_t offset)
{
	int64_t comes_by = (int64_t)(offset / disk->bytes_per_ns) % disk->turn_ns;

	return (comes_by - time % disk->turn_ns + disk->turn_ns) % disk->turn_ns;
}

int64_t disk_serve(struct disk *disk, int64_t now, int64_t offset, int64_t length)
{
	int64_t time = now > disk->free_at ? now : disk->free_at;

	/* What follows the last request is in the drive's buffer, or goes there, without a turn. */
	if (offset != disk->head) {
		time += disk_seek_ns(disk, offset);
		time += disk_wait_ns(disk, time, offset);
	}
	disk->free_at = time + (int64_t)(length / disk->bytes_per_ns);
	disk->head = offset + length;
	return disk->free_at - now;
}
