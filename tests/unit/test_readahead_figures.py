"""The read-ahead experiment: its options, and what follows from results whose truth is known."""

import itertools
import re
from collections.abc import Mapping, Sequence
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import html_page
import lab_results
from html_page import HtmlPage
from pgtrace.errors import UsageError
from pgtrace.lab import result_report
from pgtrace.lab.core.figures import part
from pgtrace.lab.readahead import measuring
from pgtrace.lab.readahead.figures import Step, humps, steps
from pgtrace.lab.readahead.findings import findings
from pgtrace.lab.readahead.knee import NEAR, knee_of, turn_of
from pgtrace.lab.readahead.result import (
    ReadaheadCell,
    ReadaheadOptions,
    ReadaheadResult,
)
from pgtrace.model import encoding
from pgtrace.model.capture import Io, Source
from pgtrace.model.histogram import Histogram
from pgtrace.model.lab_result import Finding
from pgtrace.stats import paired

PAGE = 8192
TABLE = 16 << 20
DOCUMENT_S = {256: 26, 512: 24, 1024: 22, 2048: 20, 4096: 19, 8192: 18, 16384: 19, 32768: 18,
              327680: 24}  # fmt: skip
"""digoal's table of 2012: seconds by sectors."""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing is no number"),
        ("0,x", "x is no number"),
        ("0,-8", "-8 is no number"),
        ("0,1.5", "1.5 is no number"),
        ("0,٨", "is no number"),
        ("0,,8", "nothing is no number"),
        ("0,12", "12 is no multiple: take 8 or 16"),
        ("0,9999999999992", "more than any device has"),
        ("8,8", "a step is there twice"),
        ("256", "one step shows no difference"),
    ],
)
def test_steps_that_make_no_sweep_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        measuring.steps(text)
    assert words in str(refused.value)
    assert "--sectors" in str(refused.value)


def test_steps_are_sorted_and_the_documents_are_steps() -> None:
    assert measuring.steps("256, 0,64") == [0, 64, 256]
    assert measuring.steps(",".join(map(str, measuring.SECTORS))) == list(measuring.SECTORS)
    assert set(DOCUMENT_S) < set(measuring.SECTORS)


def reads(source: Source, times: Sequence[int], device_bytes: int = 0) -> Io:
    latencies = Histogram()
    for ns in times:
        latencies.add(ns)
    return Io(
        source=source, pattern="sequential", size="1", scope="query",
        bytes=PAGE * len(times), blocks=len(times), device_bytes=device_bytes,
        latency=latencies.to_data(), kind="heap",
    )  # fmt: skip


def cell(sectors: int, run: int, elapsed_s: float, *, cpu: float = 0.2) -> ReadaheadCell:
    """A scan of 2,048 pages, which read ahead as far as it says: every window is asked for once,
    half of them while they were waited for."""
    pages = TABLE // PAGE
    windows = pages if not sectors else max(2, TABLE // (sectors * 512))
    device = windows if not sectors else windows - windows // 2
    waited_ns = int(elapsed_s * 1e9 * (1 - cpu)) // device
    parts = [reads("device", [waited_ns] * device, device * (TABLE // windows))]
    if sectors:
        parts += [
            reads("readahead_issued", [20_000] * (windows // 2), windows // 2 * (TABLE // windows)),
            reads("page_cache", [2_000] * (pages - windows)),
        ]
    requests = windows * (1 if sectors else 2)
    return ReadaheadCell(
        "ssd", run, elapsed_s, pattern="sequential", state="cold", read_ahead_sectors=sectors,
        rows=1, cpu_s=elapsed_s * cpu, cpu_wait_s=0.0, client_cpu_s=0.01 * elapsed_s,
        device_requests=requests, device_read_bytes=TABLE, device_busy_s=elapsed_s * 0.9,
        resident_before=0.0, io=parts,
    )  # fmt: skip


def result(
    seconds: Mapping[int, float], *, runs: int = 5, noise: float = 0.01, cpu: float = 0.2
) -> ReadaheadResult:
    """A sweep whose times are these, but for noise between runs; the index scan's are all alike."""
    rng = Random(3)
    base = lab_results.pages_result([lab_results.SSD], runs=1)
    found = ReadaheadResult(
        partial=False, started=base.started, duration_s=base.duration_s, host=base.host,
        server=base.server, probes=base.probes, lost=base.lost, storages=base.storages, cells=[],
        options=ReadaheadOptions(
            rows=24_000, runs=runs, table_bytes=TABLE, seed=3, cold_by="posix_fadvise",
            sectors=list(seconds), left_out={"shm": "--storage shm: tmpfs is memory"},
            queries={"sequential": "copy t to stdout", "random": "select 1"},
        ),
    )  # fmt: skip
    for run in range(1, runs + 1):
        for sectors, elapsed_s in seconds.items():
            scan = cell(sectors, run, elapsed_s * rng.lognormvariate(0, noise), cpu=cpu)
            by_index = msgspec.structs.replace(
                scan, pattern="random", elapsed_s=5 * rng.lognormvariate(0, noise)
            )
            found.cells += [scan, by_index]
    return found


def finding(found: ReadaheadResult, name: str) -> Finding:
    (one,) = [f for f in findings(found) if f.name == name]
    return one


def test_of_document_000s_times_the_knee_and_the_turn_are_the_documents() -> None:
    """18 s from 8,192 sectors on, where 16,384 once took 19; then 24."""
    measured = result(DOCUMENT_S, noise=0.002)
    knee, turn = finding(measured, "knee"), finding(measured, "turn")
    assert (knee.low, knee.value, knee.high) == (8192, 8192, 8192)
    assert "at 8,192 sectors" in knee.verdict
    assert "not decided" not in knee.verdict
    assert knee.details.best_sectors in (8192, 32768)
    assert (turn.low, turn.value, turn.high) == (327680, 327680, 327680)
    assert "times as long as the best" in turn.verdict


def test_an_even_sweep_has_its_knee_at_the_first_step_and_no_turn() -> None:
    measured = result(dict.fromkeys((0, 64, 256, 1024), 3.0), noise=0.001)
    assert finding(measured, "knee").value == 0
    turn = finding(measured, "turn")
    assert turn.value is None
    assert "none up to" in turn.verdict or "nothing above" in turn.verdict


def test_what_noise_hides_is_not_decided() -> None:
    measured = result({64: 3.0, 256: 2.1, 1024: 2.0, 4096: 2.2}, noise=0.3, runs=3)
    knee, turn = finding(measured, "knee"), finding(measured, "turn")
    assert "not decided" in knee.verdict
    assert knee.low is not None and knee.high is not None and knee.low < knee.high
    assert "at 4,096 sectors, which takes" not in turn.verdict


def test_one_run_decides_nothing() -> None:
    measured = result({64: 3.0, 256: 2.0}, runs=1)
    knee = finding(measured, "knee")
    assert knee.value == 256
    assert (knee.low, knee.high) == (None, None)
    assert "one run has no interval" in knee.verdict


@given(
    st.lists(st.floats(0.01, 100), min_size=2, max_size=8),
    st.integers(1, 4),
    st.floats(0, 1),
)
def test_the_knee_lies_between_its_ends_and_is_what_a_reader_would_name(
    seconds: list[float], runs: int, noise: float
) -> None:
    measured = result({8 * 2**n: s for n, s in enumerate(seconds)}, runs=runs, noise=noise)
    found = steps(measured, "ssd", "sequential")
    knee = knee_of(found)
    assert knee
    assert knee.low.sectors <= knee.at.sectors <= knee.high.sectors <= knee.best.sectors
    best = min(step.time.value for step in found)
    wanted = next(s.sectors for s in found if s.time.value <= NEAR * best * (1 + 1e-9))
    assert knee.at.sectors == wanted


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1])
@pytest.mark.parametrize("plateau", [False, True])
def test_a_knee_or_turn_that_is_decided_is_seldom_wrong(noise: float, plateau: bool) -> None:
    """Drift of a fifth hits a whole run, noise each measurement."""
    seconds: dict[int, float] = dict(DOCUMENT_S) | ({16384: 18, 327680: 18} if plateau else {})
    rng, trials = Random(7), 200
    wrong, outside = 0, 0
    for _ in range(trials):
        drift = [rng.lognormvariate(0, 0.2) for _ in range(5)]
        found = [
            timed(s, [t * d * rng.lognormvariate(0, noise) for d in drift])
            for s, t in seconds.items()
        ]
        knee = knee_of(found)
        assert knee
        turn = turn_of(knee, found)
        decided = knee.low is knee.high
        wrong += decided and knee.at.sectors != 8192
        outside += not knee.low.sectors <= 8192 <= knee.high.sectors
        if turn and turn.certain and turn.certain is turn.possible:
            wrong += plateau or turn.certain.sectors != 327680
    assert wrong <= trials / 40
    assert outside <= trials / 5


def timed(sectors: int, elapsed_s: Sequence[float]) -> Step:
    """One that is known by its times alone."""
    of_no_read = part([])
    return Step(
        sectors, dict(enumerate(elapsed_s)), paired.mean(list(elapsed_s)), of_no_read, {},
        of_no_read, len(elapsed_s), None, None, None, None, None, None, None, 0,
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize(
    ("cpu", "words", "by"),
    [(0.1, "the device limits", "the device"), (0.9, "the CPU limits", "the CPU"),
     (0.5, "no single thing limits", None)],
)  # fmt: skip
def test_what_limits_is_where_the_time_goes(cpu: float, words: str, by: str | None) -> None:
    found = finding(result({0: 9.0, 256: 2.0}, cpu=cpu), "limit")
    assert words in found.verdict
    assert found.details.by == by
    assert found.details.sectors == 256


def test_a_client_that_takes_its_time_is_named() -> None:
    measured = result({0: 9.0, 256: 2.0}, cpu=0.1)
    for one in measured.cells:
        one.client_cpu_s = 0.95 * one.elapsed_s
    assert "the client limits" in finding(measured, "limit").verdict


def test_where_others_read_for_the_backend_its_waiting_is_not_measured() -> None:
    measured = result({0: 9.0, 256: 2.0})
    for one in measured.cells:
        one.io = [msgspec.structs.replace(r, performed_by="io worker") for r in one.io]
    found = finding(measured, "limit")
    assert "not measured" in found.verdict
    assert "waited" not in lab_results.details(found)


def test_bytes_that_are_the_tables_and_bytes_that_are_not() -> None:
    measured = result({0: 9.0, 256: 2.0})
    assert "exactly that at every step" in finding(measured, "bytes").verdict
    measured.options.table_bytes = TABLE * 2
    found = finding(measured, "bytes")
    assert found.value == pytest.approx(0.5)
    assert "0.500 times that" in found.verdict
    assert "exactly" not in found.verdict


def test_humps_are_told_by_where_their_reads_were_served() -> None:
    """As published: most in the page cache, and 65 to 131 µs for what was read ahead."""
    measured = result({256: 2.0, 0: 9.0}, runs=1)
    without, with_it = steps(measured, "ssd", "sequential")
    (only,) = humps(without)
    assert only.by_source == {"device": TABLE // PAGE}
    found = humps(with_it)
    assert [max(h.by_source, key=lambda s: h.by_source[s]) for h in found] == [
        "page_cache", "readahead_issued", "device",
    ]  # fmt: skip
    assert sum(h.reads for h in found) == with_it.all.reads
    words = [f.verdict for f in findings(measured) if f.name == "hump"]
    assert any("in 2.00 requests" in w for w in words)
    assert any("for 128.0 KiB each" in w for w in words)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_no_two_humps_share_a_read(powers: list[int]) -> None:
    measured = result({0: 9.0}, runs=1)
    measured.cells[0].io = [reads("device", [1 << n for n in powers])]
    (step,) = steps(measured, "ssd", "sequential")
    found = humps(step)
    assert found
    for before, after in itertools.pairwise(found):
        assert before.high_ns <= after.low_ns
    assert sum(h.reads for h in found) <= len(powers)
    assert all(sum(h.by_source.values()) == h.reads for h in found)


def test_the_text_holds_every_step_its_histogram_and_what_follows() -> None:
    measured = result(DOCUMENT_S | {0: 90})
    measured.findings = findings(measured)
    for width in (80, 120):
        text = result_report.render(measured, width=width)
        assert max(map(len, text.splitlines())) <= width
    text = result_report.render(measured)
    for sectors in DOCUMENT_S:
        assert len(re.findall(rf"^ +{sectors:,} .*", text, re.MULTILINE)) == 3
        assert f"ssd (simulated), {sectors:,} sectors: its reads in 5 runs" in text
    for word in ("Knee: ", "Turn: ", "Limit: ", "Bytes: ", "Random reads: ", "Left out: "):
        assert word in text
    assert "the best" in text
    assert "Findings" not in text, "each has its place"


def test_the_text_needs_no_findings_and_no_runs() -> None:
    measured = result({0: 9.0, 256: 2.0})
    own = result_report.render(measured)
    measured.findings = findings(measured)
    assert result_report.render(measured) == own
    measured.cells, measured.findings = [], []
    assert "No run was finished" in result_report.render(measured)


def test_the_file_says_the_same() -> None:
    measured = result({0: 9.0, 256: 2.0})
    measured.findings = findings(measured)
    again = msgspec.json.decode(encoding.encode(measured), type=ReadaheadResult)
    assert result_report.render(again) == result_report.render(measured)
    assert again.cells[0].read_ahead_sectors == 0, "which is no default"


def test_the_page_draws_what_the_text_says() -> None:
    measured = result(DOCUMENT_S | {0: 90})
    measured.findings = findings(measured)
    page = HtmlPage(html_page.render(measured))
    over = page.table("At each read-ahead")
    assert [int(name.replace(",", "")) for name in over.rows] == sorted(DOCUMENT_S)
    scan = page.table("ssd (simulated): the scan, by read-ahead")
    assert list(scan.rows) == ["0", *over.rows]
    (chart,) = [c for c in page.charts if c["kind"] == "lines"]
    points = chart["layers"][0]["points"]
    assert max(points, key=lambda point: point[1])[0] in (8192, 32768)
    assert chart["panels"][0]["marks"] == [[8192, "knee"]]
    assert len([c for c in page.charts if c["kind"] == "latencies"]) == len(DOCUMENT_S) + 1
    for words in ("Knee: at 8,192 sectors", "Turn: at 327,680 sectors", "tmpfs is memory"):
        assert words in page.text, words


def test_a_page_of_nothing_is_a_page() -> None:
    measured = result({0: 9.0, 256: 2.0})
    for cells in ([], measured.cells[:2]):
        measured.cells = cells
        assert "Read-ahead" in HtmlPage(html_page.render(measured)).text
