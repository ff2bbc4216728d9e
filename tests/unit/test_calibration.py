"""Where fields of PgBackendStatus are is found from samples, or it is said that it was not."""

import random
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgtrace.engines import layout
from pgtrace.engines.calibration import Calibration, Offsets

EPOCH_US = 946_684_800_000_000
AHEAD_NS = 1_700_000_000 * 10**9
"""What the clock of the day is ahead of the kernel's."""
UNDEFINED, IDLE, RUNNING, IN_TRANSACTION = range(4)


class Backend:
    """One that reports what it does, as pgstat_report_activity() and its like write it."""

    def __init__(self, tid: int, places: Offsets, seed: int = 1) -> None:
        self.tid = tid
        self.places = places
        self.chance = random.Random(seed)
        self.memory = bytearray(layout.ENTRY)
        self.number = -1
        self.now_ns = 10**12 + tid
        self.samples: list[layout.Sample] = []
        self.silent = False
        self._set("I", places.pid, tid)
        self._set("Q", 16, self._us())  # when the process began

    def state(self, state: int, *, text: bool) -> None:
        started = self._us()
        self._pass(self.chance.randint(1_000, 400_000))
        self._sample(0, state, text)
        if self.silent:
            return
        self._set("I", self.places.state, state)
        self._set("Q", self.places.start + 8, self._us())  # when the state began
        if text:
            self._set("Q", self.places.start, started)
            self._set("Q", self.places.start - 8, started)  # when the transaction began
            if self.places.query_id is not None:
                self._set("Q", self.places.query_id, 0)
        self._change()

    def query_id(self, query_id: int, *, force: bool = False) -> None:
        self._pass(20_000)
        self._sample(1, query_id, force)
        place = self.places.query_id
        if self.silent or place is None:
            return
        if force or not struct.unpack_from("<Q", self.memory, place)[0]:
            self._set("Q", place, query_id)
            self._change()

    def statement(self, query_id: int | None) -> None:
        self.state(RUNNING, text=True)
        if query_id == 0:  # as each simple query does first
            self.query_id(0, force=True)
        elif query_id is not None:
            self.query_id(query_id)
            self.query_id(query_id ^ 7)  # of a function's: the first is kept
        self._pass(self.chance.randint(10_000, 10**9))
        if self.chance.random() < 0.5:
            self._set("Q", self.places.start - 8, 0)  # the transaction is over
            self._change()
            self.state(IDLE, text=False)
        else:
            self.state(IN_TRANSACTION, text=False)
        self._pass(self.chance.randint(10_000, 10**9))

    def _pass(self, ns: int) -> None:
        self.now_ns += ns

    def _us(self) -> int:
        return (self.now_ns + AHEAD_NS) // 1000 - EPOCH_US

    def _set(self, kind: str, place: int, value: int) -> None:
        struct.pack_into(f"<{kind}", self.memory, place, value)

    def _change(self) -> None:
        (count,) = struct.unpack_from("<I", self.memory, self.places.changes)
        self._set("I", self.places.changes, count + 2)

    def _sample(self, of_id: int, argument: int, flag: bool) -> None:
        self.number += 1
        entry = (layout.c_uint8 * layout.ENTRY)(*self.memory)
        self.samples.append(
            layout.Sample(
                record=layout.RECORD_SAMPLE,
                tid=self.tid,
                pid=self.tid,
                number=self.number,
                ns=self.now_ns,
                argument=argument,
                of_id=of_id,
                flag=flag,
                entry=entry,
            )
        )


PLACES = Offsets(changes=0, pid=4, state=232, start=32, running=RUNNING, query_id=424)


def calibrated(samples: Sequence[layout.Sample], *, ids: bool = True) -> Calibration:
    calibration = Calibration(ids=ids)
    for sample in samples:
        calibration.add(sample, AHEAD_NS)
    return calibration


def busy(places: Offsets = PLACES, *, statements: int = 20, seed: int = 1) -> Backend:
    backend = Backend(7, places, seed)
    for _ in range(statements):
        backend.statement(backend.chance.getrandbits(64) | 1)
    return backend


@settings(max_examples=30, deadline=None)
@given(
    st.permutations(range(3, layout.ENTRY // 16)),
    st.integers(0, 1 << 32),
)
def test_fields_are_found_wherever_they_are(places: list[int], seed: int) -> None:
    state, start, query_id = (16 * place for place in places[:3])
    hidden = Offsets(4, 8, state, start, RUNNING, query_id)
    calibration = calibrated(busy(hidden, statements=60, seed=seed).samples)
    assert (calibration.offsets(), calibration.failures()) == (hidden, [])
    assert (calibration.is_over(), calibration.missing()) == (True, [])


def test_without_query_ids() -> None:
    backend = Backend(7, PLACES)
    for _ in range(10):
        backend.statement(None)
    calibration = calibrated(backend.samples, ids=False)
    assert calibration.offsets() == PLACES._replace(query_id=None)
    assert calibration.is_over()
    calibration = calibrated(backend.samples)  # they may still come
    assert (calibration.is_over(), calibration.failures()) == (False, [])


MANY = 6000
"""Samples of one that shows nothing more however many there are."""


def test_what_never_comes_is_not_waited_for_for_ever() -> None:
    """The probes stay in every query until it is over."""
    silent, no_ids = Backend(7, PLACES), Backend(8, PLACES)
    silent.silent = True
    while len(silent.samples) < MANY:
        silent.statement(5)
    while len(no_ids.samples) < MANY:
        no_ids.statement(0)
    calibration = calibrated(silent.samples)
    assert (calibration.is_over(), calibration.offsets()) == (True, None)
    (why,) = calibration.missing()
    assert "track_activities = off" in why
    calibration = calibrated(no_ids.samples)
    assert calibration.is_over()
    assert calibration.offsets() == PLACES._replace(query_id=None)
    (why,) = calibration.missing()
    assert why.startswith("none was reported")
    calibration = calibrated(silent.samples, ids=False)
    assert (calibration.is_over(), calibration.missing()) == (True, [])


def test_it_takes_more_than_one_statement() -> None:
    calibration = calibrated(busy(statements=1).samples)
    assert calibration.offsets() is None
    assert not calibration.is_over()


def test_samples_that_were_lost_mislead_nobody() -> None:
    """What follows on a gap is not known."""
    samples = busy(statements=200).samples
    chance = random.Random(3)
    kept = [sample for sample in samples if chance.random() < 0.7]
    assert calibrated(kept).offsets() == PLACES


def test_sessions_that_report_nothing() -> None:
    """With track_activities = off, beside one that does."""
    quiet, loud = Backend(8, PLACES), busy()
    quiet.silent = True
    for _ in range(20):
        quiet.statement(5)
    both = sorted([*quiet.samples, *loud.samples], key=lambda sample: sample.ns)
    assert calibrated(both).offsets() == PLACES
    assert calibrated(quiet.samples).offsets() is None
    assert calibrated(quiet.samples).failures() == []


def test_processes_that_report_otherwise() -> None:
    """Such as a parallel worker's, whose statement began before it did."""
    backend = busy(statements=60)
    for sample in backend.samples[100:108]:
        struct.pack_into("<Q", sample.entry, PLACES.start, 1)
    assert calibrated(backend.samples).offsets() == PLACES


def test_of_a_busy_server_nearly_all_samples_show_the_same_state() -> None:
    """Which other fields have, too, always: a backend is seldom seen from one statement to the
    next, where only few can be looked at.
    """
    chance, passed_by = random.Random(5), 0
    samples = busy(statements=300).samples
    for sample in samples:
        for decoy in (184, 616):
            struct.pack_into("<I", sample.entry, decoy, RUNNING)
        passed_by += bool(sample.flag and chance.random() < 0.9)
        sample.number += passed_by
    calibration = calibrated(samples)
    assert (calibration.offsets(), calibration.failures()) == (PLACES, [])


def altered(backend: Backend, place: int, size: int, into: int | None) -> list[layout.Sample]:
    """Without what is in one place; or with it in another, too."""
    for sample in backend.samples:
        value = bytes(sample.entry)[place : place + size]
        if into is None:
            sample.entry[place : place + size] = [0] * size
        else:
            sample.entry[into : into + size] = list(value)
    return backend.samples


@pytest.mark.parametrize(
    ("name", "place", "size"),
    [
        ("st_changecount", PLACES.changes, 4),
        ("st_procpid", PLACES.pid, 4),
        ("st_state", PLACES.state, 4),
        ("st_activity_start_timestamp", PLACES.start, 8),
        ("st_query_id", 424, 8),
    ],
)
@pytest.mark.parametrize(("into", "why"), [(None, "no place"), (48, "two places or more")])
def test_a_field_that_is_nowhere_or_twice(
    name: str, place: int, size: int, into: int | None, why: str
) -> None:
    samples = altered(busy(statements=80), place, size, into)
    calibration = calibrated(samples)
    assert calibration.failures() == [f"{name} was found at {why}"]
    assert calibration.is_over()
    found = calibration.offsets()
    if name == "st_query_id":
        assert found == PLACES._replace(query_id=None)
    else:
        assert found is None
