"""Real captures on a simulated device, compared: the right cause is named, and never another."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from copied_cluster import CopiedCluster
from fix_cluster import SETTINGS, bindir
from fix_markers import PG_VERSION
from fix_storage import Simulated
from paced_reads import Load, captured
from pgtrace.comparing.captures import compare
from pgtrace.comparing.comparison import Comparison
from pgtrace.comparing.side import side_of
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.model.capture import Capture
from pgtrace.reporters.sections.comparison import answer
from pgtrace.tracing import timeline

pytestmark = [
    pytest.mark.alone,
    pytest.mark.pg("15"),
    pytest.mark.usefixtures("awake_cpus"),
]  # they compare times

LATENCY_US = 1000
SECONDS = 6.0
Server = Callable[[int], PrivateCluster]


@pytest.fixture(scope="module")
def on_device(simulated: Simulated) -> Iterator[Server]:
    """A server on a device of this latency, whose scans always read."""
    with ExitStack() as stack:

        @cache
        def get(latency_us: int) -> PrivateCluster:
            device = simulated(latency_us=latency_us)
            device.read_ahead(0)
            settings = SETTINGS | {"shared_buffers": "1MB"}
            where = {"bindir": bindir(PG_VERSION), "directory": device.directory}
            return stack.enter_context(CopiedCluster(settings, table=True, **where))

        yield get


Take = Callable[..., Capture]


@pytest.fixture
def take(on_device: Server, monkeypatch: pytest.MonkeyPatch) -> Take:
    monkeypatch.setattr(timeline, "LENGTH_S", 0.2)  # enough of them in a short time

    def take(latency_us: int = LATENCY_US, **load: float) -> Capture:
        settings = {"seconds": SECONDS} | load
        return captured(on_device(latency_us), Load(**settings), (latency_us, load))  # type: ignore[arg-type]

    return take


def told(a: Capture, b: Capture) -> tuple[dict[str, str], str]:
    """Outcomes of all reads by what is compared, and what is said."""
    found: Comparison = compare(side_of(a), side_of(b))
    outcomes = {f.metric: f.outcome for f in found.findings if f.of.source is None}
    return outcomes, " ".join(answer(found))


def test_the_cause_is_named_and_no_other(take: Take) -> None:
    before = take()
    outcomes, text = told(before, take())
    assert not {"more", "less"} & set(outcomes.values()), text

    outcomes, text = told(before, take(LATENCY_US * 12 // 10))
    assert outcomes["time_per_block"] in {"more", "not_decided"}, text
    assert outcomes["mix"] == "no_difference", text
    assert "called" not in text
    assert "A call of" not in text

    outcomes, text = told(before, take(2 * LATENCY_US))
    assert outcomes["time_per_block"] == outcomes["speed"] == "more", text
    assert outcomes["mix"] == "no_difference", text
    assert text.startswith("Slower in B: reading a block takes 1."), text
    assert "blocks came from the same places" in text
    assert "called" not in text
    assert "A call of" not in text

    outcomes, text = told(before, take(cached=0.5))
    assert outcomes["time_per_block"] == outcomes["mix"] == "less", text
    assert outcomes["speed"] in {"no_difference", "not_decided"}, text
    assert "Blocks came from elsewhere" in text
    assert "called" not in text
    assert "A call of" not in text

    outcomes, text = told(before, take(calls_per_s=40.0))
    assert outcomes["blocks_per_second"] == "more", text
    assert outcomes["time_per_block"] in {"no_difference", "not_decided"}, text
    assert "One statement was called 2.0" in text or "called 1.9" in text, text
    assert "A call of" not in text

    outcomes, text = told(before, take(rows=3))
    assert outcomes["blocks_per_second"] == "more", text
    assert outcomes["time_per_block"] in {"no_difference", "not_decided"}, text
    assert "A call of one statement reads" in text
    assert "called" not in text
