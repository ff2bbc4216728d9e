"""How a read follows the one before: every read of a program that reads in a known order.

tests/kernel/test_ways.py runs these same tests in the virtual machine, by fentry and kprobe.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fix_reader import Reader
from fix_storage import READ_AHEAD_KIB
from pgtrace import trace
from pgtrace.engines import ReadsWay
from scans import BLOCK, only, patterns

BLOCKS = 2048
WINDOW = READ_AHEAD_KIB * 1024 // BLOCK
"""Blocks that the kernel reads ahead at most."""
ORDERS: dict[str, tuple[Any, ...]] = {
    "in order": (1, "sequential"),
    "backwards": (1, "random", "--backwards"),
    "stride 2": (2, "near"),
    "stride 2 backwards": (2, "random", "--backwards"),
    "gaps as wide as the window": (WINDOW + 1, "near"),
    "wider gaps": (WINDOW + 2, "random"),
}
"""From the start of a read to that of the next, in blocks; the pattern; options of the reader."""


@pytest.fixture
def way() -> ReadsWay:
    return "tracepoint"


@pytest.fixture(scope="module")
def holes(storage: Path) -> Iterator[Path]:
    """A file of BLOCKS blocks that were never written: reading them asks no device."""
    path = storage / "holes"
    path.touch()
    os.truncate(path, BLOCKS * BLOCK)
    yield path
    path.unlink()


def traced(
    reader: Callable[..., Reader], file: Path, way: ReadsWay, *options: object
) -> Counter[str]:
    """The patterns of the reads of a reader."""
    one = reader(file, *options)
    with trace(one.pid, any_process=True, reads=way) as tracer:
        one.go()
    return patterns(only(tracer.capture()).reads)


def random_blocks(seed: int, count: int) -> Iterator[int]:
    """The blocks that `reader --random SEED` reads."""
    state = seed * 2 + 1
    for _ in range(count):
        state ^= state << 13 & 2**64 - 1
        state ^= state >> 7
        state ^= state << 17 & 2**64 - 1
        yield state % BLOCKS


@pytest.mark.parametrize("call", ["pread", "read", "preadv"])
@pytest.mark.parametrize("order", ORDERS)
def test_all_reads_but_the_first_are_of_one_pattern(
    reader: Callable[..., Reader], holes: Path, way: ReadsWay, order: str, call: str
) -> None:
    """A gap of as many blocks as are read ahead is near; one more is not."""
    step, pattern, *options = ORDERS[order]
    count = BLOCKS // step
    told = traced(reader, holes, way, "--call", call, "--step", step, "--count", count, *options)
    assert told == {"first": 1, pattern: count - 1}


def test_reads_at_random(reader: Callable[..., Reader], holes: Path, way: ReadsWay) -> None:
    """Those that happen to be near, or next, are told as well."""
    expected: Counter[str] = Counter(first=1)
    blocks = list(random_blocks(7, 10 * BLOCKS))
    for before, block in pairwise(blocks):
        gap = block - before - 1
        expected["sequential" if gap == 0 else "near" if 0 < gap <= WINDOW else "random"] += 1
    assert min(expected.values()) == 1
    assert len(expected) == 4
    assert traced(reader, holes, way, "--random", 7, "--count", len(blocks)) == expected
