"""pgtrace compare: what it says, how it ends, and what it does not take."""

import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures import HOSTILE, HOSTILE_SHOWN, some_backend, some_capture, some_query
from html_page import HtmlPage
from pgtrace.__main__ import main
from pgtrace.comparing import captures as compared
from pgtrace.comparing import conditions, selection
from pgtrace.comparing.comparison import Comparison
from pgtrace.comparing.side import side_of
from pgtrace.files import documents
from pgtrace.model.capture import Capture, Gap, Host, Lost, Probes, Server
from pgtrace.model.histogram import Histogram
from seeded_captures import STATEMENT, at_once, seeded_capture

TURNED = {"more": "less", "less": "more"}
EXPERIMENTS = Path(__file__).parents[2] / "docs/experiments"
CORPUS = Path(__file__).parents[1] / "corpus/captures"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of captures that differ from `a` in one thing."""
    folder = tmp_path_factory.mktemp("compared")
    for name, settings in {
        "a": {"relation": "public.t"},
        "same": {},
        "slower": {"slower": 2.0, "relation": "public.t"},
        "a-fifth": {"slower": 1.35},
        "cached": {"cached": 0.5},
        "calls": {"calls": 40.0},
        "plan": {"blocks_per_call": 30},
        "short": {"seconds": 9},
        "elsewhere": {"tablespace": "ssd2", "text": "select 2"},
    }.items():
        kind: dict[str, Any] = settings
        documents.write(seeded_capture(name, **kind), folder / f"{name}.json")
    documents.write(some_capture(some_backend(io=[], queries=[])), folder / "empty.json")
    return folder


def said(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert main(["compare", *map(str, arguments)]) == code
    told = capsys.readouterr()
    return told.err if code == 2 else told.out


def answer(text: str) -> str:
    """The part that is said first, on one line."""
    return " ".join(text.split("\n\n")[1].split())


def result(capsys: pytest.CaptureFixture[str], *arguments: object) -> Comparison:
    return msgspec.json.decode(said(capsys, *arguments, "--json"), type=Comparison)


@pytest.mark.parametrize(
    ("name", "words", "never"),
    [
        (
            "same",
            [r"^No difference above 10 %: reading a block takes",
             "The rest is as it was, within 10 %: where blocks came from, how fast the same kinds "
             "of reads are, how many blocks are read each second"],
            "Slower|Faster|elsewhere|Statement|Not decided",
        ),
        (
            "slower",
            [r"^Slower in B: reading a block takes 1\.\d+ to 2\.\d+ times as long",
             r"The same kinds of reads take 1\.\d+ to 2\.\d+ times as long\.",
             "Reading took up more of each second",
             "The rest is as it was, within 10 %: where blocks came from and how many blocks"],
            "elsewhere|Statement",
        ),
        (
            "cached",
            [r"^Faster in B: reading a block takes 0\.\d+ to 0\.\d+ times as long",
             r"Blocks came from elsewhere, which makes .*: the page cache served \d+ % of them, in "
             r"A 0 %\.",
             "The rest is as it was, within 10 %: how fast the same kinds of reads are"],
            "Slower|Statement",
        ),
        (
            "calls",
            [r"^Reading took up more of each second: 1\.\d+ to 2\.\d+ times",
             r"statements made [12]\.\d+ times the calls, and a call read 1\.00 times the blocks",
             r"Statement 4711 was called [12]\.\d+ times as often",
             "No difference above 10 %: reading a block",
             "The rest is as it was, within 10 %: where blocks came from and how fast the same"],
            "Slower|Faster|elsewhere|times as many blocks a call",
        ),
        (
            "plan",
            [r"^Reading took up more of each second: [23]\.\d+ to 3\.\d+ times",
             r"Statement 4711 reads 3\.00 times as many blocks a call \(30\.0, in A 10\.0\)"],
            "Slower|Faster|elsewhere|was called",
        ),
    ],
)  # fmt: skip
def test_the_right_cause_is_told_and_no_other(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, words: list[str], never: str
) -> None:
    text = answer(said(capsys, folder / "a.json", folder / f"{name}.json"))
    for each in words:
        assert re.search(each, text), text
    assert not re.search(never, text), text


def test_ten_of_ten_and_never_a_wrong_one() -> None:
    """Each cause from ten other seeds."""
    for seed in range(10):
        sides = {
            name: side_of(seeded_capture(f"{seed} {name}", seconds=40, **kind))
            for name, kind in {
                "a": {}, "same": {}, "slower": {"slower": 2.0}, "cached": {"cached": 0.5},
                "calls": {"calls": 40.0},
            }.items()
        }  # fmt: skip
        told = {
            name: {
                f.metric: f.outcome
                for f in compared.compare(sides["a"], sides[name]).findings
                if f.of.source is None
            }
            for name in sides
            if name != "a"
        }
        for name, primary in (("slower", "more"), ("cached", "less")):
            assert told[name]["time_per_block"] == primary
        assert told["slower"]["speed"] == "more"
        assert told["slower"]["mix"] == "no_difference"
        assert told["cached"]["mix"] == "less"
        assert told["cached"]["speed"] in {"no_difference", "not_decided"}
        assert told["calls"]["blocks_per_second"] == "more"
        assert told["calls"]["time_per_block"] in {"no_difference", "not_decided"}
        assert not {"more", "less"} & set(told["same"].values())


@pytest.mark.parametrize("name", ["same", "slower", "cached", "calls", "plan"])
def test_with_a_and_b_exchanged_the_verdict_is_the_mirror(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    a, b = folder / "a.json", folder / f"{name}.json"
    one, other = result(capsys, a, b), result(capsys, b, a)
    by = {(f.metric, f.of): f for f in other.findings}
    assert len(by) == len(other.findings) == len(one.findings)
    for finding in one.findings:
        turned = by[finding.metric, finding.of]
        assert turned.outcome == TURNED.get(finding.outcome, finding.outcome)
        assert (turned.a, turned.b) == (finding.b, finding.a)
        if finding.low is not None:
            assert turned.high == pytest.approx(1 / finding.low)
            assert turned.value == pytest.approx(1 / (finding.value or 0))


def test_the_files_order_decides_the_primary_and_all_else_is_data(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = result(capsys, folder / "a.json", folder / "slower.json")
    assert [f.primary for f in found.findings].index(True) == 0
    assert sum(f.primary for f in found.findings) == 1
    assert found.findings[0].metric == "time_per_block"
    assert 20 <= (found.findings[0].units or 0) <= 30
    assert found.schema == "pgtrace.comparison/1"
    (statement,) = found.statements
    assert statement.a_calls_per_s == pytest.approx(20, rel=0.05)
    assert statement.a_blocks_per_call == pytest.approx(10)
    assert found.factor
    assert found.factor.calls == pytest.approx(1, rel=0.05)
    assert found.factor.block_time == pytest.approx(2, rel=0.1)


def test_a_margin_may_be_given(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = folder / "a.json", folder / "a-fifth.json"
    assert answer(said(capsys, a, b)).startswith("Slower in B")
    wide = said(capsys, a, b, "--margin", "100")
    assert "No difference above 100 %" in wide
    for text in ("-1", "0", "nan", "inf", "1e9", "ten", "", "1001"):
        told = said(capsys, a, b, "--margin", text, code=2)
        assert f"--margin: {text!r} is no number above 0, up to 1000" in told


@pytest.mark.parametrize(
    ("condition", "code", "words"),
    [
        ("mean > 1.2x", 8, "true"),
        ("mean > 20%", 8, "true"),
        ("mean(device) > 1.2x", 8, "true"),
        ("mean(device, random) > 1.2x", 8, "true"),
        ("p99(device) > 1.2x", 8, "true"),
        ("time > 1.5x", 8, "true"),
        ("mean < 1.2x", 0, "not so"),
        ("mean > 5x", 0, "not so"),
        ("mean > 2x", 0, "not decided"),
        ("blocks > 1.5x", 0, "not so"),
        ("mean(page cache) > 1.2x", 0, "not decided"),
        ("p99(fsync) > 1.2x", 0, "not decided"),
    ],
)
def test_a_condition_decides_how_it_ends(
    folder: Path, capsys: pytest.CaptureFixture[str], condition: str, code: int, words: str
) -> None:
    a, b = folder / "a.json", folder / "slower.json"
    assert main(["compare", str(a), str(b), "--fail-if", condition]) == code
    assert f"{condition}: {words}" in " ".join(capsys.readouterr().out.split())


def test_one_true_condition_of_several_is_enough(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = "--fail-if", "mean > 5x", "--fail-if", "mean > 1.2x"
    assert main(["compare", str(folder / "a.json"), str(folder / "slower.json"), *both]) == 8
    found = result_of_failed(capsys, folder)
    assert [each.outcome for each in found.conditions] == ["false", "true"]


def result_of_failed(capsys: pytest.CaptureFixture[str], folder: Path) -> Comparison:
    capsys.readouterr()
    both = "--fail-if", "mean > 5x", "--fail-if", "mean > 1.2x"
    files = str(folder / "a.json"), str(folder / "slower.json")
    assert main(["compare", *files, *both, "--json"]) == 8
    return msgspec.json.decode(capsys.readouterr().out, type=Comparison)


@pytest.mark.parametrize(
    "text",
    ["", "mean", "mean >", "mean > 2", "mean = 2x", "men > 2x", "p0 > 2x", "p100 > 2x", "p > 2x",
     "mean(disk) > 2x", "mean(read, write) > 2x", "mean > -2x", "mean > -100%", "mean > 0x",
     "p99(random) > 2x", "mean((device)) > 2x", "mean > 2x; rm", "mean(device > 2x",
     f"mean > {10**400}x", f"mean{' ' * 100_000}"],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_what_is_no_condition_is_refused_with_one_that_is(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    told = said(capsys, folder / "a.json", folder / "same.json", "--fail-if", text, code=2)
    (example, *_) = re.findall(r"--fail-if '([^']+)'", told)
    conditions.parse(example)


WORDS = st.lists(st.sampled_from(["device", "page_cache", "random", "sequential"]), unique=True)


@given(
    st.sampled_from([*conditions.METRICS]), WORDS, st.sampled_from("<>"),
    st.decimals("0.01", 100, places=2), st.sampled_from(["", " "]),
)  # fmt: skip
def test_every_condition_is_read_as_it_is_written(
    metric: str, words: list[str], sign: str, number: Any, space: str
) -> None:
    of = f"({','.join(words)})" if words else ""
    found = conditions.parse(f"{metric}{of}{space}{sign}{space}{number}x")
    assert found.metric == conditions.METRICS[metric]
    assert found.above == (sign == ">")
    assert found.ratio == float(number)
    assert found.sources | found.patterns == set(words)


@given(st.text())
def test_any_other_text_is_a_condition_or_refused(text: str) -> None:
    try:
        conditions.parse(text)
    except conditions.NoConditionError:
        return


def test_two_parts_of_one_capture(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = "--a", "interval 12:00:00-12:00:30", "--b", "interval 12:00:30-12:01"
    found = result(capsys, folder / "a.json", *both)
    assert found.a.part == "interval 12:00:00-12:00:30"
    assert (found.a.intervals, found.b.intervals) == (30, 30)
    assert (found.a.seconds, found.b.seconds) == (30, 30)
    assert found.findings[0].outcome in {"no_difference", "not_decided"}
    by_percentile = [f for f in found.findings if f.metric == "p99" and f.low is not None]
    assert by_percentile, "of an interval percentiles are known by powers of two"
    assert all((f.high or 0) / (f.low or 1) >= 2 for f in by_percentile)


@pytest.mark.parametrize(
    ("part", "is_decided"),
    [
        ("tablespace pg_default", True),
        ("statement 4711", True),
        ("statement FROM T", True),
        ("relation public.t", True),
        ("backend 5167", False),
    ],
)
def test_a_part_of_two_captures(
    folder: Path, capsys: pytest.CaptureFixture[str], part: str, is_decided: bool
) -> None:
    """Of a statement that took nearly all the time intervals tell, of a backend none."""
    a, b = folder / "a.json", folder / "slower.json"
    found = result(capsys, a, b, "--a", part, "--b", part)
    assert found.findings[0].outcome == ("more" if is_decided else "not_decided")
    assert found.findings[0].a == pytest.approx(200_000, rel=0.2)
    assert found.findings[0].b == pytest.approx(400_000, rel=0.2)
    if not is_decided:
        assert found.cautions[0].name == "no_intervals"


def test_backends_that_ended_together_are_a_part_like_one() -> None:
    """Their pid is 0; what their statements took, nearly all there was, is not their course."""
    sides = []
    for name, slower in (("a", 1.0), ("b", 2.0)):
        capture = seeded_capture(name, slower=slower)
        (backend,) = capture.backends
        backend.pid, backend.merged = 0, 12
        sides.append(side_of(capture, selection.parse(["backend 0"])))
    found = compared.compare(*sides)
    assert found.findings[0].outcome == "not_decided"
    assert "of one backend is not kept" in (sides[0].no_pieces or "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a.json"], "alone"),
        (["a.json", "a.json"], "the same capture"),
        (["a.json", "--a", "interval 12:00:00-12:00:30", "--b", "interval 12:00:20-12:00:50"],
         "overlap"),
        (["a.json", "--a", "interval 12:00:00-12:00:30"], "overlap"),
        (["a.json", "same.json", "--a", "interval 9-10"], "no interval"),
        (["a.json", "same.json", "--a", "interval 12:00:30-12:00:10"], "ends before it begins"),
        (["a.json", "same.json", "--a", "interval 13:00-14:00"], "lasted from 12:00:00"),
        (["a.json", "same.json", "--b", "backend 1"], "--b: the capture has nothing of backend 1"),
        (["a.json", "same.json", "--b", "backend 0"], "--b: the capture has nothing of backend 0"),
        (["a.json", "same.json", "--b", "backend x"], "no pid"),
        (["a.json", "same.json", "--b", "statement 99"], "has nothing of statement 99"),
        (["a.json", "same.json", "--b", "relation nobody"], "has nothing of relation nobody"),
        (["a.json", "same.json", "--b", "tablespace nowhere"], "has nothing of tablespace nowhere"),
        (["a.json", "same.json", "--b", "moon"], "is no part"),
        (["a.json", "same.json", "--b", "backend 1", "--b", "backend 2"], "two of backend"),
        (["a.json", "nothing.json"], "no such file"),
        (["-", "-"], "stdin is one file"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(folder)
    assert words in said(capsys, *arguments, code=2)


@pytest.mark.parametrize(
    "parts", [[], ["a.json"], ["--a", "interval 12:00:00-12:00:30"]], ids=["alone", "twice", "half"]
)
def test_the_line_that_an_error_names_works(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    parts: list[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    told = said(capsys, "a.json", *parts, code=2)
    options = shlex.split(told[told.index("--a 'interval") :])
    assert "B: a.json" in said(capsys, "a.json", *options)


@pytest.mark.parametrize("format_", ["text", "json", "html"])
def test_a_stdout_that_is_closed_is_told(folder: Path, format_: str) -> None:
    line = (
        f"{sys.executable} -m pgtrace compare {folder}/a.json {folder}/slower.json "
        f"--format {format_} >&-"
    )
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "pgtrace: stdout is closed: name a file with -o FILE\n"


def test_a_copy_of_a_file_is_the_same_capture(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    copy = tmp_path / "copy.json"
    copy.write_bytes((folder / "a.json").read_bytes())
    assert "the same capture" in said(capsys, folder / "a.json", copy, code=2)


def test_files_of_other_schemas(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """/1 is read, /3 is refused, and so is a lab result beside a capture."""
    old = said(capsys, CORPUS / "capture-1.json", folder / "a.json")
    assert "Not decided" in old
    new = tmp_path / "new.json"
    new.write_text(
        (folder / "a.json").read_text().replace("pgtrace.capture/2", "pgtrace.capture/3")
    )
    assert "reads /1 and /2: upgrade pgtrace" in said(capsys, folder / "a.json", new, code=2)
    lab = Path(__file__).parents[2] / "docs/experiments/pages.json"
    assert "name two captures" in said(capsys, folder / "a.json", lab, code=2)


@pytest.mark.parametrize("order", [1, -1])
def test_nothing_in_common_and_nothing_at_all(
    folder: Path, capsys: pytest.CaptureFixture[str], order: int
) -> None:
    files = [folder / "a.json", folder / "empty.json"][::order]
    text = said(capsys, *files)
    assert "Not decided whether reading a block takes longer" in text
    assert re.search(r"[AB] has no reads", text)
    files = [folder / "a.json", folder / "elsewhere.json"][::order]
    found = result(capsys, *files)
    kinds = [f for f in found.findings if f.of.tablespace]
    assert not kinds, "kinds of reads that one side alone has are not compared"
    assert {s.text for s in found.statements} == {"select 2", "select * from t where id = $1"}
    assert "read in" in said(capsys, *files)


def test_two_that_did_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in (1, 2):
        documents.write(some_capture(duration_s=float(number)), tmp_path / f"{number}.json")
    text = said(capsys, tmp_path / "1.json", tmp_path / "2.json")
    assert "Neither side did anything that could be compared." in text


def changed(capture: Capture, **fields: Any) -> Capture:
    return msgspec.structs.replace(capture, **fields)


@pytest.mark.parametrize(
    ("fields", "caution", "is_decided"),
    [
        ({"probes": Probes("libbpf", "kprobe", "usdt")}, "probe_type", False),
        ({"server": Server("15.18", 1, "/data", block_size=32768)}, "block_size", False),
        ({"lost": Lost(read=10)}, "lost", True),
        ({"lost": Lost(read=10_000)}, "lost", False),
        ({"lost": Lost(backends=1)}, "lost", False),
        ({"lost": Lost(missed=5)}, "lost", True),
        ({"lost": Lost(missed=10_000)}, "lost", False),
        ({"partial": ["names: TypeError at x.py:1"]}, "partial", True),
        ({"so_far": True}, "partial", True),
        ({"host": Host("6.18.0", 2)}, "kernel", True),
        ({"host": Host("6.1.0", 64)}, "cpus", True),
        ({"server": Server("18.1", 1, "/data")}, "version", True),
        ({"gaps": [Gap("data", "2026-01-31T12:00:01Z", None)]}, "gap", True),
    ],
)
def test_what_makes_it_doubtful_is_said(
    fields: dict[str, Any], caution: str, is_decided: bool
) -> None:
    a, b = seeded_capture("a"), changed(seeded_capture("b", slower=2.0), **fields)
    found = compared.compare(side_of(a), side_of(b))
    assert caution in {each.name for each in found.cautions}
    decided = {f.outcome for f in found.findings} - {"not_decided"}
    assert bool(decided) == is_decided
    condition = conditions.evaluate(conditions.parse("mean > 1.2x"), side_of(a), side_of(b))
    assert condition.outcome == ("true" if is_decided else "not_decided")


def test_statements_of_which_nearly_all_is_known_are_told_apart() -> None:
    """The five that took longest in each interval are; a second one here took next to nothing."""
    sides = []
    for name, slower in (("a", 1.0), ("b", 2.0)):
        capture = seeded_capture(name, slower=slower)
        capture.backends.append(some_backend(pid=2, io=[], queries=[some_query(io=[])]))
        sides.append(side_of(capture))
    found = compared.compare(*sides)
    (time,) = (f for f in found.findings if f.of.statement and f.metric == "time_per_block")
    assert time.of.statement == STATEMENT
    assert time.outcome == "more"
    assert time.value == pytest.approx(2, rel=0.1)
    of_nobody = seeded_capture("c")
    for interval in of_nobody.intervals[::2]:
        interval.heaviest.clear()
    of_nobody.backends.append(some_backend(pid=2, io=[], queries=[some_query(io=[])]))
    found = compared.compare(sides[0], side_of(of_nobody))
    assert not [f for f in found.findings if f.of.statement], "half of it is not known by interval"


def test_of_a_part_it_is_not_said_where_its_blocks_came_from(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Intervals do not tell that of one statement: nor, then, that each is as fast as it was."""
    files = folder / "a.json", folder / "cached.json"
    found = result(capsys, *files, "--a", "statement 4711", "--b", "statement 4711")
    outcomes = {f.metric: f.outcome for f in found.findings if f.of.operation == "read"}
    assert outcomes["time_per_block"] == "less"
    assert (outcomes["mix"], outcomes["speed"]) == ("not_decided", "not_decided")
    told = " ".join(said(capsys, *files, "--a", "statement 4711", "--b", "statement 4711").split())
    assert "The same kinds of reads" not in told
    assert "it is not known where they were served" in told


def test_a_part_by_two_is_of_both() -> None:
    """What the statement did elsewhere is not in its intervals either."""
    sides = []
    for name, slower in (("a", 1.0), ("b", 3.0)):
        disk = seeded_capture(name, tablespace="hdd", slower=slower)
        ssd = seeded_capture(name, tablespace="ssd", calls=400.0)
        capture = at_once(ssd, disk)
        sides.append(side_of(capture, selection.parse(["statement 4711", "tablespace hdd"])))
    found = compared.compare(*sides)
    assert found.findings[0].outcome == "more"
    assert found.findings[0].value == pytest.approx(3, rel=0.2)


def test_statements_that_were_not_measured_are_none_that_did_not_run() -> None:
    a = changed(seeded_capture("a"), probes=Probes("libbpf", "fentry", "none"))
    for backend in a.backends:
        backend.queries.clear()
    found = compared.compare(side_of(a), side_of(seeded_capture("b")))
    assert not found.statements
    words = [each.words for each in found.cautions if each.name == "not_measured"]
    assert words == ["In A no statements were measured: they are not compared."]


def test_a_gap_is_time_in_which_nothing_was_done() -> None:
    capture = seeded_capture("a", seconds=60)
    del capture.intervals[20:40]
    side = side_of(capture)
    assert sum(piece.seconds for piece in side.pieces) == pytest.approx(60)
    assert sum(not piece.sums for piece in side.pieces) == 20
    endless = msgspec.structs.replace(capture, duration_s=1e9)
    assert len(side_of(endless).pieces) < 2000


def test_lab_results_are_compared_run_by_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The published one against itself, every run of which took 30 % longer in B; eight runs are
    too few for a verdict, sixteen are not."""
    published = json.loads((EXPERIMENTS / "pages.json").read_text())
    published["cells"] = [cell for cell in published["cells"] if cell["run"] < 8]
    for times in (1, 2):
        files = []
        for name, slower in (("a", 1.0), ("b", 1.3)):
            cells = [dict(cell) for cell in published["cells"] for _ in range(times)]
            for number, cell in enumerate(cells):
                cell["elapsed_s"] *= slower
                cell["run"] = number
            files.append(tmp_path / f"{name}.json")
            files[-1].write_text(json.dumps(published | {"cells": cells}))
        found = result(capsys, *files)
        elapsed = [f for f in found.findings if f.metric == "elapsed"]
        assert elapsed
        assert all(f.value == pytest.approx(1.3) for f in elapsed)
        assert not any(f.primary for f in found.findings)
        outcomes = {f.outcome for f in elapsed}
        assert "less" not in outcomes
        assert "no_difference" not in outcomes
        assert ("more" in outcomes) == (times == 2)
        assert all(f.outcome != "more" for f in found.findings if f.metric == "time_per_block")
        if times == 1:
            told = " ".join(said(capsys, *files).split())
            assert re.search(
                r"not decided: there are \d of at least 10 runs; measure with more", told
            )
    text = " ".join(said(capsys, *files).split())
    assert re.search(r"slower in B, elapsed 1\.\d+ to 1\.\d+ times", text)
    same = said(capsys, files[0], files[0], code=2)
    assert "the same result" in same


def test_loads_of_servers_are_compared_by_their_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Twelve runs, of which in the second result each CHECKPOINT of B took twice as long."""
    published = json.loads((EXPERIMENTS / "sync.json").read_text())
    cells = [cell for cell in published["cells"] if cell["run"] == 1]
    for name, times in ("a.json", 1), ("b.json", 2):
        published["cells"] = [
            cell
            | {"run": run, "elapsed_s": cell["elapsed_s"] * (1 + run % 4 / 100 + times / 1000)
               * (times if (cell["server"], cell["phase"]) == ("B", "checkpoint") else 1)}
            for run in range(1, 13)
            for cell in cells
        ]  # fmt: skip
        published["findings"] = []
        (tmp_path / name).write_text(json.dumps(published))
    files = tmp_path / "a.json", tmp_path / "b.json"
    text = " ".join(said(capsys, *files).split())
    for load in ("wide", "narrow", "bulk"):
        assert f"CHECKPOINT after the {load} load of B: slower in B, elapsed 1.9" in text
        assert f"CHECKPOINT after the {load} load of A: slower" not in text
    assert "Of 12 measurements 3 differ, 9 do not" in text
    for server in published["options"]["servers"]:
        server["name"] += "-2"
    for cell in published["cells"]:
        cell["server"] += "-2"
    files[1].write_text(json.dumps(published))
    told = said(capsys, *files, code=2)
    assert "nothing in common: servers A, B and A-2, B-2" in told


@pytest.mark.parametrize(
    ("a", "b", "options", "words"),
    [
        ("pages", "readahead", [], "name two results of one experiment"),
        ("sync", "sync", [], "the same result"),
        ("pages", "pages", ["--fail-if", "mean > 2x"], "--fail-if is for captures"),
        ("pages", "pages", ["--a", "backend 1"], "--a is for captures"),
    ],
)
def test_other_lab_results_are_refused(
    capsys: pytest.CaptureFixture[str], a: str, b: str, options: list[str], words: str
) -> None:
    files = EXPERIMENTS / f"{a}.json", EXPERIMENTS / f"{b}.json"
    assert words in said(capsys, *files, *options, code=2)


def test_lab_results_of_other_storages_have_nothing_in_common(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = json.loads((EXPERIMENTS / "pages.json").read_text())
    for each in (*other["storages"], *other["cells"], *other.get("plans", [])):
        key = "storage" if "storage" in each else "name"
        each[key] = f"{each[key]}-2"
    other["findings"] = []
    (tmp_path / "b.json").write_text(json.dumps(other))
    told = said(capsys, EXPERIMENTS / "pages.json", tmp_path / "b.json", code=2)
    assert "nothing in common" in told


def test_a_short_one_is_not_decided(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, folder / "a.json", folder / "short.json")
    why = "B has work in 9 stretches of time, of 10 at least. Capture for longer."
    assert f"Not decided: {why}" in " ".join(text.split())
    assert not re.search("Slower|Faster|No difference above", text)


def test_hostile_text_is_shown_as_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = HOSTILE.replace("\u2028", "").replace("\ud800", "")
    shown = HOSTILE_SHOWN.replace("\\u2028", "").replace("\\ud800", "")
    files = []
    for name, slower in (("a", 1.0), ("b", 2.0)):
        files.append(tmp_path / f"{name}.json")
        hostile = seeded_capture(
            name, slower=slower, calls=40.0 * slower, text=text, tablespace="\x1b]0;x\x07\u202e"
        )
        documents.write(hostile, files[-1])
    printed = said(capsys, *files)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028]", printed)
    assert shown[:30] in " ".join(printed.split())
    assert main(["compare", *map(str, files), "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert "<img src=x" not in page
    assert "\u202e" not in page
    (table,) = (t for t in HtmlPage(page).tables if t.caption.startswith("Statements"))
    assert [*table.rows] == [shown]
    assert json.loads(said(capsys, *files, "--json"))["statements"][0]["text"] == text


def test_text_fits_eighty_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("slower", "cached", "short", "elsewhere"):
        text = said(capsys, folder / "a.json", folder / f"{name}.json")
        assert max(map(len, text.splitlines())) <= 80 + len(str(folder))


def test_a_file_is_written_and_not_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = str(folder / "a.json"), str(folder / "slower.json")
    out = tmp_path / "out.html"
    assert main(["compare", *files, "--format", "html", "-o", str(out)]) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"Wrote {out}\n")
    assert "Slower in B" in HtmlPage(out.read_text()).text
    assert "--force" in said(capsys, *files, "-o", out, code=2)


def test_stdin_and_a_closed_pipe(folder: Path) -> None:
    command = [sys.executable, "-m", "pgtrace", "compare", folder / "a.json", "-"]
    with (folder / "slower.json").open("rb") as file:
        ran = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "B: stdin" in ran.stdout
    pipe = f"{sys.executable} -m pgtrace compare {folder}/a.json {folder}/slower.json"
    line = f"set -o pipefail; {pipe} | true"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_selections_are_read_as_they_are_said() -> None:
    found = selection.parse(["interval 9:00-10:00:01", "tablespace a b"])
    assert found.interval == ("9:00", "10:00:01")
    assert found.tablespace == "a b"
    assert selection.parse(found.words().split(", ")) == found


@given(st.lists(st.text(), max_size=3))
def test_any_other_text_is_a_part_or_refused(texts: list[str]) -> None:
    try:
        selection.parse(texts)
    except selection.SelectionError:
        return


def test_output_is_one_that_can_be_read_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = said(capsys, folder / "a.json", folder / "cached.json", "--json")
    found = msgspec.json.decode(raw, type=Comparison)
    again = io.StringIO(raw)
    assert msgspec.json.decode(msgspec.json.encode(found)) == json.load(again)


def test_percentiles_are_those_of_the_report(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = result(capsys, folder / "a.json", folder / "cached.json")
    for name, side in (("a", "a"), ("cached", "b")):
        histogram = Histogram.of(
            io for backend in documents.load(folder / f"{name}.json").backends for io in backend.io
        )
        for metric, p in (("p50", 50), ("p99", 99)):
            (finding,) = (f for f in found.findings if f.metric == metric and not f.of.source)
            assert getattr(finding, side) == histogram.percentile(p)
            low, high = finding.low or 0, finding.high or 0
            assert low < (finding.value or 0) < high
