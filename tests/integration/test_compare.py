"""Real captures on a simulated device, compared: the right cause is named, and no other."""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from statistics import mean
from typing import Any

import pytest

from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, bindir
from fix_markers import PG_VERSION
from fix_storage import Simulated, SimulatedSsd
from paced_reads import Load, captured, make_small
from pgtrace.comparing.captures import compare
from pgtrace.comparing.comparison import Comparison
from pgtrace.comparing.side import side_of
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture
from pgtrace.reporters.sections.comparison_answer import answer
from pgtrace.tracing import timeline
from scans import ATTEMPTS

pytestmark = [
    pytest.mark.alone,
    pytest.mark.pg("15"),
    pytest.mark.usefixtures("awake_cpus"),
]  # they compare times

LATENCY_US = 1000
SECONDS = 6.0
STEADY = math.log(1.05)
"""So far a device may be off that is as fast as it is meant to be."""


@dataclass(frozen=True)
class Stage:
    """A server on a device whose requests can be looked at."""

    device: SimulatedSsd
    cluster: PrivateCluster


@dataclass(frozen=True)
class Taken:
    """A capture, and how long the device took for a request meanwhile, as it says itself."""

    capture: Capture
    request_ns: float


@pytest.fixture(scope="module")
def on_device(simulated: Simulated) -> Iterator[Callable[[int], Stage]]:
    """A server on a device of this latency, whose scans always read."""
    with ExitStack() as stack:

        @cache
        def get(latency_us: int) -> Stage:
            device = simulated(latency_us=latency_us)
            device.read_ahead(0)
            settings = SETTINGS | {"shared_buffers": "256kB", "max_connections": 10}
            where = {"bindir": bindir(PG_VERSION), "directory": device.directory}
            cluster = stack.enter_context(CopiedCluster(settings, table=True, **where))
            make_small(cluster)
            return Stage(device, cluster)

        yield get


Take = Callable[..., Taken]


@pytest.fixture
def take(on_device: Callable[[int], Stage], monkeypatch: pytest.MonkeyPatch) -> Take:
    monkeypatch.setattr(timeline, "LENGTH_S", 0.2)  # enough of them in a short time

    def take(latency_us: int = LATENCY_US, **load: Any) -> Taken:
        stage = on_device(latency_us)
        settings = {"seconds": SECONDS} | load
        capture = captured(stage.cluster, Load(**settings), (latency_us, load))
        began = datetime.fromisoformat(capture.started).timestamp()
        requests = stage.device.reads_between(began, began + capture.duration_s)
        return Taken(capture, mean(each.duration_ns for each in requests))

    return take


@pytest.fixture(scope="module")
def kept() -> list[Taken]:
    return []


@pytest.fixture
def before(take: Take, kept: list[Taken]) -> Taken:
    """The capture that others are held against, taken once."""
    if not kept:
        kept.append(take())
    return kept[0]


def told(a: Taken, b: Taken) -> tuple[dict[str, str], str]:
    """Outcomes of all reads by what is compared, and what is said. What is said of reads of the
    device is held against what that says itself: a busy host may slow it down, too."""
    found: Comparison = compare(side_of(a.capture), side_of(b.capture))
    truth, text = b.request_ns / a.request_ns, " ".join(answer(found))
    for each in found.findings:
        if each.metric == "time_per_block" and each.of.source == "device":
            allowed = {
                "more": truth > 1.03,
                "less": truth < 1 / 1.03,
                "no_difference": 1 / 1.2 < truth < 1.2,
                "not_decided": True,
            }
            assert allowed[each.outcome], (truth, each)
    return {f.metric: f.outcome for f in found.findings if f.of.source is None}, text


def another(before: Taken, again: Callable[[], Taken], slower: float = 1.0) -> Taken:
    """Another capture, of a time when the device took so many times as long as before, or of
    several that of which this is most nearly true: what this host does besides may slow down the
    program that is the device."""
    tried: list[tuple[float, int, Taken]] = []
    for attempt in range(ATTEMPTS):
        taken = again()
        unsteady = abs(math.log(taken.request_ns / before.request_ns / slower))
        if unsteady < STEADY:
            return taken
        tried.append((unsteady, attempt, taken))
    return min(tried)[2]


UNCHANGED = {"no_difference", "not_decided"}


def no_statement(text: str) -> bool:
    """Whether no statement is said to be a cause."""
    return not re.search("was called|times as many blocks a call|in another order| alone: ", text)


def test_what_is_the_same_is_not_called_different(take: Take, before: Taken) -> None:
    outcomes, text = told(before, another(before, take))
    assert set(outcomes.values()) <= UNCHANGED, text
    assert no_statement(text), text


@pytest.mark.parametrize("slower", [1.2, 2.0])
def test_a_slower_device_is_the_cause(take: Take, before: Taken, slower: float) -> None:
    after = another(before, lambda: take(round(slower * LATENCY_US)), slower)
    outcomes, text = told(before, after)
    assert outcomes["mix"] in UNCHANGED, text
    assert no_statement(text), text
    if slower < 2:
        assert outcomes["time_per_block"] in {"more", "not_decided"}, text
    else:
        assert outcomes["time_per_block"] == outcomes["speed"] == "more", text
        assert text.startswith("Slower in B: reading a block takes "), text
        assert "The same kinds of reads take " in text


def test_what_the_page_cache_holds_is_the_cause(take: Take, before: Taken) -> None:
    outcomes, text = told(before, another(before, lambda: take(cached=0.5)))
    assert outcomes["time_per_block"] == outcomes["mix"] == "less", text
    assert outcomes["speed"] in UNCHANGED, text
    assert text.startswith("Faster in B: reading a block takes 0."), text
    assert "Blocks came from elsewhere, which makes it 0." in text
    assert "the page cache served" in text
    assert no_statement(text), text


def test_more_calls_are_the_cause(take: Take, before: Taken) -> None:
    outcomes, text = told(before, another(before, lambda: take(calls_per_s=40.0)))
    assert outcomes["blocks_per_second"] == "more", text
    assert outcomes["speed"] in UNCHANGED, text
    assert re.search(r"One statement was called (2\.0|1\.9)\d times as often", text), text
    assert "a call read 1.0" in text or "a call read 0.9" in text, text
    assert "times as many blocks a call" not in text


def test_more_blocks_a_call_are_the_cause(take: Take, before: Taken) -> None:
    """Three times the rows by the same plan: that is what is not said to have changed alone."""
    outcomes, text = told(before, another(before, lambda: take(rows=3)))
    assert outcomes["blocks_per_second"] == "more", text
    assert outcomes["speed"] in UNCHANGED, text
    assert re.search(r"One statement reads 2\.\d+ times as many blocks a call", text), text
    assert "its plan, its data, or what shared_buffers hold of them has changed" in text
    assert "in another order" not in text
    assert "was called" not in text


def test_another_plan_is_the_cause(take: Take) -> None:
    """A sequential scan of a hundred blocks, where it was an index scan."""
    a = take(small=True, calls_per_s=4.0)
    b = take(small=True, calls_per_s=4.0, plan="sequential")
    outcomes, text = told(a, b)
    assert outcomes["blocks_per_second"] == "more", text
    assert re.search(
        r"One statement reads 1\d\.\d times as many blocks a call \(\d+\.\d, in A \d\.\d+\), "
        r"and in another order: 9\d % in sequence, in A \d(\.\d)? %: its plan has probably changed",
        text,
    ), text
    assert "was called" not in text
