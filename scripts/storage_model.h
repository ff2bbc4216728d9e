/* How long a simulated disk takes for a request: see storage_model.c. Times are nanoseconds. */
#pragma once
#include <stdint.h>

struct disk {
	int64_t turn_ns;
	double bytes_per_ns; /* under the head */
	double seek_min_ns, seek_max_ns, seek_power;
	double size;	 /* bytes; a full stroke */
	int64_t head;	 /* where the last request ended, bytes */
	int64_t free_at; /* when it did, ns */
};

void disk_init(struct disk *disk, int64_t size, int64_t rpm, int64_t seek_min_ns,
	       int64_t seek_avg_ns, int64_t seek_max_ns, int64_t bytes_per_s);

/* How long the head takes to the track of `offset`. */
int64_t disk_seek_ns(const struct disk *disk, int64_t offset);

/* How long it takes from `time` on until the first byte of `offset` comes by. */
int64_t disk_wait_ns(const struct disk *disk, int64_t time, int64_t offset);

/* Nanoseconds from `now`, when the request comes, to its end. It moves the head. */
int64_t disk_serve(struct disk *disk, int64_t now, int64_t offset, int64_t length);
