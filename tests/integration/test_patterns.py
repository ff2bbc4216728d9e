"""How a read follows the one before: every read of a program that reads in a known order."""

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
from pgtrace.engines import ProbeType
from read_ahead import read_ahead
from scans import BLOCK, only, patterns
from worker import Worker

pytestmark = pytest.mark.vm

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


@pytest.fixture(scope="module")
def holes(storage: Path) -> Iterator[Path]:
    """A file of BLOCKS blocks that were never written: reading them asks no device."""
    path = storage / "holes"
    path.touch()
    os.truncate(path, BLOCKS * BLOCK)
    yield path
    path.unlink()


def traced(
    reader: Callable[..., Reader], file: Path, way: ProbeType, *options: object
) -> Counter[str]:
    """The patterns of the reads of a reader."""
    one = reader(file, *options)
    with trace(one.pid, any_process=True, probe_type=way) as tracer:
        one.go()
    return patterns(only(tracer.capture()).io)


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
    reader: Callable[..., Reader], holes: Path, way: ProbeType, order: str, call: str
) -> None:
    """A gap of as many blocks as are read ahead is near; one more is not."""
    step, pattern, *options = ORDERS[order]
    count = BLOCKS // step
    told = traced(reader, holes, way, "--call", call, "--step", step, "--count", count, *options)
    assert told == {"first": 1, pattern: count - 1}


def test_reads_at_random(reader: Callable[..., Reader], holes: Path, way: ProbeType) -> None:
    """Those that happen to be near, or next, are told as well."""
    expected: Counter[str] = Counter(first=1)
    blocks = list(random_blocks(7, 10 * BLOCKS))
    for before, block in pairwise(blocks):
        gap = block - before - 1
        expected["sequential" if gap == 0 else "near" if 0 < gap <= WINDOW else "random"] += 1
    assert min(expected.values()) == 1
    assert len(expected) == 4
    assert traced(reader, holes, way, "--random", 7, "--count", len(blocks)) == expected


@pytest.mark.parametrize("kib", [0, 512])
def test_the_window_is_the_read_ahead_of_the_file(
    reader: Callable[..., Reader], holes: Path, way: ProbeType, kib: int
) -> None:
    """As it was when the file was opened; without read-ahead nothing is near."""
    window = kib * 1024 // BLOCK
    with read_ahead(holes, kib):
        for step in (window + 1, window + 2):
            told = traced(reader, holes, way, "--step", step, "--count", 20)
            pattern = "sequential" if step == 1 else "near" if step == window + 1 else "random"
            assert told == {"first": 1, pattern: 19}, step


def test_an_advised_file_is_read_ahead_twice_as_far(
    reader: Callable[..., Reader], holes: Path, way: ProbeType
) -> None:
    for step, pattern in (2 * WINDOW + 1, "near"), (2 * WINDOW + 2, "random"):
        told = traced(reader, holes, way, "--advise", "sequential", "--step", step, "--count", 20)
        assert told == {"first": 1, pattern: 19}, step


def test_segments_continue(worker: Worker, storage: Path, way: ProbeType) -> None:
    """The second gigabyte of a relation begins where the first ends; other forks, relations and
    databases are others.
    """
    segment = 1 << 30
    names = "5/16385", "5/16385.1", "5/16385_vm.1", "5/16386.1", "6/16385.1"
    for name in names:
        path = storage / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.truncate(path, segment if name == "5/16385" else 1 << 20)
        worker.do(f"fds = globals().setdefault('fds', {{}}); path = {str(path)!r}")
        worker.do(f"fds[{name!r}] = os.open(path, os.O_RDONLY)")
    with trace(worker.pid, any_process=True, probe_type=way) as tracer:

        def pattern(name: str, position: int) -> str:
            before = patterns(only(tracer.capture()).io)
            worker.do(f"assert call('pread', fds[{name!r}], position={position}) == 8192")
            (found,) = (patterns(only(tracer.capture()).io) - before).elements()
            return found

        assert pattern("5/16385", segment - BLOCK) == "first"
        assert pattern("5/16385.1", 0) == "sequential"
        assert pattern("5/16385.1", BLOCK) == "sequential"
        for other in names[2:]:
            assert pattern(other, 2 * BLOCK) == "first", other
        assert pattern("5/16385.1", 2 * BLOCK) == "sequential"
        assert pattern("5/16385", segment - BLOCK) == "random"
        assert pattern("5/16385.1", WINDOW * BLOCK) == "near"
        assert pattern("5/16385", 0) == "random"
        assert pattern("5/16385.1", BLOCK) == "random"
