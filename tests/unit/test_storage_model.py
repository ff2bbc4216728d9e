"""The disk of scripts/storage: seek, rotation and transfer, as storage_model.c computes them."""

import subprocess
from collections.abc import Callable
from ctypes import CDLL, Structure, byref, c_double, c_int64
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).parents[2] / "scripts"
SIZE = 2 << 30
RPM, RATE = 10_000, 113_000_000
TURN_NS = 6_000_000
TRACK = 678_000  # bytes
LEAST, AVERAGE, MOST = 300_000, 3_800_000, 7_810_000


class Disk(Structure):
    """`struct disk` of storage_model.h."""

    _fields_ = [
        ("turn_ns", c_int64),
        ("bytes_per_ns", c_double),
        ("seek_min_ns", c_double),
        ("seek_max_ns", c_double),
        ("seek_power", c_double),
        ("size", c_double),
        ("head", c_int64),
        ("free_at", c_int64),
    ]


offsets = st.integers(0, SIZE - 1)
times = st.integers(0, 10**16)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    library = tmp_path_factory.mktemp("model") / "model.so"
    subprocess.run(
        ["clang", "-O2", "-shared", "-fPIC", SCRIPTS / "storage_model.c", "-lm", "-o", library],
        check=True,
    )
    loaded = CDLL(str(library))
    for name in ("disk_seek_ns", "disk_wait_ns", "disk_serve"):
        getattr(loaded, name).restype = c_int64
    return loaded


@pytest.fixture(scope="module")
def make(model: CDLL) -> Callable[..., Disk]:
    def make(average: int = AVERAGE) -> Disk:
        disk = Disk()
        numbers = (SIZE, RPM, LEAST, average, MOST, RATE)
        model.disk_init(byref(disk), *map(c_int64, numbers))
        return disk

    return make


def seek_ns(model: CDLL, disk: Disk, offset: int) -> int:
    return int(model.disk_seek_ns(byref(disk), c_int64(offset)))


def serve_ns(model: CDLL, disk: Disk, now: int, offset: int, length: int) -> int:
    return int(model.disk_serve(byref(disk), c_int64(now), c_int64(offset), c_int64(length)))


@pytest.mark.parametrize("average", [1_000_000, AVERAGE, 6_000_000])
def test_the_mean_of_all_seeks_is_what_was_asked_for(
    model: CDLL, make: Callable[..., Disk], average: int
) -> None:
    disk, steps, times_ns = make(average), 200, []
    for begin in range(steps):
        disk.head = SIZE * begin // steps
        # In the middle of its share, so that no pair has no distance
        times_ns += [
            seek_ns(model, disk, SIZE * (2 * end + 1) // (2 * steps)) for end in range(steps)
        ]
    assert mean(times_ns) == pytest.approx(average, rel=0.01)


@given(head=offsets, near=offsets, far=offsets)
def test_a_longer_way_takes_longer(
    model: CDLL, make: Callable[..., Disk], head: int, near: int, far: int
) -> None:
    near, far = sorted((near, far), key=lambda offset: abs(offset - head))
    assume(far // TRACK != head // TRACK)  # there nothing is to be sought
    disk = make()
    disk.head = head
    assert 0 <= seek_ns(model, disk, near) <= seek_ns(model, disk, far) <= MOST


def test_the_whole_width_takes_the_most_and_the_next_track_the_least(
    model: CDLL, make: Callable[..., Disk]
) -> None:
    disk = make()
    assert seek_ns(model, disk, SIZE) == MOST
    assert LEAST < seek_ns(model, disk, TRACK) < 1.2 * LEAST
    assert seek_ns(model, disk, TRACK - 1) == 0


@given(now=times, places=st.tuples(offsets, offsets), length=st.integers(512, 1 << 20))
def test_a_request_takes_seek_less_than_a_turn_and_transfer(
    model: CDLL, make: Callable[..., Disk], now: int, places: tuple[int, int], length: int
) -> None:
    disk, (head, offset) = make(), places
    disk.head = head
    seek = seek_ns(model, disk, offset)
    took = serve_ns(model, disk, now, offset, length)
    transfer = int(length / disk.bytes_per_ns)
    assert disk.head == offset + length
    if offset == head:
        assert took == transfer
    else:
        assert 0 <= took - seek - transfer < TURN_NS
        # It begins when the place comes by
        assert (now + took - transfer - int(offset / disk.bytes_per_ns)) % TURN_NS == 0


@given(now=times, offset=offsets, lengths=st.lists(st.integers(512, 1 << 20), min_size=1))
def test_requests_in_order_cost_their_transfer_alone(
    model: CDLL, make: Callable[..., Disk], now: int, offset: int, lengths: list[int]
) -> None:
    """And one that comes before the last ended waits for it."""
    disk = make()
    first = serve_ns(model, disk, now, offset, 0)
    at = offset
    for length in lengths:
        end = serve_ns(model, disk, now, at, length)
        at += length
    assert end - first == pytest.approx((at - offset) / disk.bytes_per_ns, abs=len(lengths) + 1)
