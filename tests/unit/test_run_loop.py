"""How often what is traced is looked at, and what ends that."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from pgtrace.failures import Failures
from pgtrace.tracing import run_loop
from pgtrace.tracing.run_loop import Reason, Stopper, Watched

FAR_S = 600.0


class Looks:
    """When it was looked, while there was no more to do than is said here."""

    def __init__(self) -> None:
        self.stopper = Stopper()
        self.times: list[float] = []
        self.until_s = 0.0
        """How long after a look the next can wait."""
        self.most = 0
        """After so many it ends, unless this is 0."""
        self.event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def tick(self) -> None:
        self.times.append(time.monotonic())
        if len(self.times) == self.most:
            self.stopper.stop()

    def rest(self) -> tuple[float, list[int]]:
        last = self.times[-1] if self.times else self.began
        return (last + self.until_s if self.until_s else 0.0), [self.event]

    def run(self, duration_s: float, *pids: int) -> Reason:
        watched = Watched(pids)
        self.began = time.monotonic()
        failures = Failures()
        try:
            return run_loop.run(
                self.stopper, watched, duration_s, self.tick, failures, rest=self.rest
            )
        finally:
            watched.close()
            assert not failures


@pytest.fixture
def looks() -> Iterator[Looks]:
    made = Looks()
    yield made
    made.stopper.restore()
    os.close(made.event)


def test_while_something_happens_it_is_looked_every_50_ms(looks: Looks) -> None:
    looks.most = 10
    assert looks.run(FAR_S) == "signal"
    gaps = [later - earlier for earlier, later in zip(looks.times, looks.times[1:-1], strict=False)]
    assert 0.049 <= min(gaps) < 0.5  # a busy machine may let others come later


def test_while_nothing_happens_it_wakes_for_what_is_due_alone(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    ended = Watched.ended

    def noted(watched: Watched, wait_s: float, *wakes: int) -> bool:
        waits.append(wait_s)
        return ended(watched, wait_s, *wakes)

    monkeypatch.setattr(Watched, "ended", noted)
    looks.until_s = 0.4
    assert looks.run(1.0) == "duration"
    # A busy machine wakes it later, and so less often
    gaps = [after - one for one, after in pairwise([looks.began, *looks.times[:-1]])]
    assert all(gap >= 0.399 for gap in gaps)
    assert 1 <= len(looks.times) <= 3
    assert len([wait for wait in waits if wait]) == len(looks.times), "one wait for each look"


def test_what_can_be_read_is_looked_at(looks: Looks) -> None:
    looks.until_s = FAR_S
    rest, at_once = looks.rest, []
    later = threading.Timer(0.2, os.eventfd_write, (looks.event, 1))

    def heard() -> tuple[float, list[int]]:
        try:
            at_once.append(os.eventfd_read(looks.event))
        except BlockingIOError:
            return rest()
        return 0.0, []

    looks.rest = heard  # type: ignore[method-assign]
    later.start()
    looks.most = 1
    assert looks.run(FAR_S) == "signal"
    later.join()
    assert at_once == [1]


@pytest.mark.parametrize("until_s", [0.0, FAR_S])
def test_the_end_of_who_is_traced_ends_any_rest(looks: Looks, until_s: float) -> None:
    looks.until_s = until_s
    with subprocess.Popen(["sleep", "0.2"]) as child:
        assert looks.run(FAR_S, child.pid) == "backend ended"


@pytest.mark.parametrize("until_s", [0.0, FAR_S])
def test_to_ask_for_it_ends_any_rest(looks: Looks, until_s: float) -> None:
    looks.until_s = until_s
    looks.stopper.stop()
    assert looks.run(FAR_S) == "signal"
    assert len(looks.times) == 1
