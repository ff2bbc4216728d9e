"""What digoal published in 2014: for reading beside ours, never a target.

digoal, "PostgreSQL real seq_page_cost & random_page_cost in disks, ssd, memory" (2014): PostgreSQL
9.3.3 with blocks of 32 kB on CentOS 6.4. Its tracer, SystemTap, took microseconds of each read.
"""

from typing import NamedTuple

BLOCK_KB = 32


class Published(NamedTuple):
    """Means of one storage, in nanoseconds per read of 32 kB, and how many reads they are of."""

    storage: str
    sequential_ns: int
    random_ns: int
    ratio: float
    sequential_reads: int
    random_reads: int


PAGES = (
    Published("HDD, SAS 10,000 rpm, RAID cache on", 197_881, 4_957_678, 25, 23_272, 4_563),
    Published("SSD, OCZ RevoDrive3", 49_577, 483_504, 9.7, 23_269, 4_563),
    Published("OS cache, with SystemTap's own cost", 11_445, 18_563, 1.6, 23_272, 4_855),
)

CPU_MS = {
    "cpu_tuple_cost": 0.00018884145574257426,
    "cpu_index_tuple_cost": 0.00433497085216479990,
    "cpu_operator_cost": 0.00216748542608239995,
}
"""Milliseconds, "of a CPU of 1.6 GHz"."""
