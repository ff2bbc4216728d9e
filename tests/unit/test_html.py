"""The HTML page without a browser: the same numbers as the file, nothing loaded, nothing let in."""

import json
import re
from base64 import b64encode
from fractions import Fraction
from hashlib import sha256
from math import ceil, log10
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import html_page
import lab_results
import pgtrace.reporters.html
from captures import (
    CACHED,
    DEVICE,
    HOSTILE,
    HOSTILE_SHOWN,
    ISSUED,
    WAITED,
    some_backend,
    some_capture,
    some_query,
    some_reads,
)
from html_page import HtmlPage
from pgtrace import units
from pgtrace.__main__ import main
from pgtrace.files import documents
from pgtrace.lab import result_file
from pgtrace.lab.pages.result import Ratio
from pgtrace.lab.planner.result import PlannerFinding, Range, RangeDetails
from pgtrace.model import encoding
from pgtrace.model.capture import Backend, Excluded, Lost, Probes, Tablespace
from pgtrace.model.histogram import Histogram
from pgtrace.reporters.html import parts
from pgtrace.reporters.html.charts import Charts, Group, Layer

ASSETS = Path(pgtrace.reporters.html.__file__).parent / "assets"
READS = [CACHED, ISSUED, DEVICE, WAITED]


def page_of(*backends: Backend, **fields: Any) -> HtmlPage:
    return HtmlPage(html_page.render(some_capture(*backends, **fields)))


def number(shown: str) -> int:
    return int(shown.replace(",", ""))


# The numbers


def test_the_table_of_a_histogram_holds_the_numbers_of_the_capture() -> None:
    page = page_of(some_backend(io=READS, queries=[]))
    table = page.table_of(0)
    sources = ["page cache", "read-ahead issued", "device", "wait", "all"]
    assert table.head == ["from", *sources, *sources, "time"]
    whole = Histogram.of(READS)
    assert list(table.rows) == [units.bucket(low) for low, *_ in whole.fold()]
    for at, reads in enumerate(READS):
        told = {row: number(cells[at]) for row, cells in table.rows.items() if cells[at] != "0"}
        assert told == {
            units.bucket(low): n for low, _, n, _ in Histogram.of([reads]).fold_time() if n
        }
    assert [number(cells[4]) for cells in table.rows.values()] == [n for *_, n in whole.fold()]


def test_the_table_of_percentiles_holds_those_of_the_histogram() -> None:
    page = page_of(some_backend(io=READS, queries=[]))
    table = page.table_of(1)
    assert table.head[1:] == ["all", "page cache", "read-ahead issued", "device", "wait"]
    whole = Histogram.of(READS)
    for name, p in (("50 %", 50), ("90 %", 90), ("99 %", 99), ("99.99 %", 99.99), ("max", 100)):
        assert table.rows[name][0] == units.duration(whole.percentile(p) or 0, 2)
    assert table.rows["min"][0] == "6.0 µs"
    assert table.rows["99.9 %"][4] == "-", "90 waits cannot tell one in a thousand"
    assert "99.999 %" not in table.rows


def test_where_reads_were_served_is_told_with_both_shares() -> None:
    page = page_of(some_backend(io=READS, queries=[]))
    table = page.table("All reads: which reads they were")
    whole = Histogram.of(READS).total_ns
    for name, reads in (("device", DEVICE), ("read-ahead issued", ISSUED)):
        row = dict(zip(table.head[1:], table.rows[name], strict=True))
        assert number(row["reads"]) == reads.count
        assert row["bytes"] == units.size(reads.bytes)
        assert row["from device"] == units.size(reads.device_bytes)
        assert row["share of time"] == units.share(reads.total_ns / whole)


def test_what_is_drawn_is_what_the_table_says() -> None:
    page = page_of(some_backend(io=READS, queries=[]))
    drawn, table = page.charts[0], page.table_of(0)
    assert drawn["edges"][:-1] == list(table.rows)
    assert drawn["columns"] == [
        *(f"reads {name}" for name in table.head[1:6]),
        *(f"share of the time {name}" for name in table.head[6:11]),
        "time",
    ]
    for at, layer in enumerate(drawn["layers"]):
        assert layer["keys"] == [table.head[1 + at]]
        assert layer["counts"] == [number(cells[at]) for cells in table.rows.values()]
        for share, cells in zip(layer["shares"], table.rows.values(), strict=True):
            assert cells[5 + at] == units.share(share / 100) or share < 0.06
    assert sum(sum(layer["shares"]) for layer in drawn["layers"]) == pytest.approx(100, abs=0.01)


latencies = st.lists(
    st.tuples(st.integers(0, 2**42), st.integers(1, 10**6)), min_size=1, max_size=9
)


@given(latencies, latencies)
def test_every_read_is_drawn_whatever_the_latencies(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    charts = Charts()
    layers = []
    for name, sample in (("one", one), ("other", other)):
        of = Histogram()
        for ns, count in sample:
            of.add(ns, count)
        layers.append(Layer((name,), "device", of))
    charts.latencies("both", [Group("", layers)])
    charts.percentiles("both", layers)
    bars, curves = json.loads(charts.json())
    for layer, drawn, curve in zip(layers, bars["layers"], curves["layers"], strict=True):
        assert sum(drawn["counts"]) == layer.latencies.count
        xs, ys = zip(*curve["points"], strict=True)
        assert list(xs) == sorted(xs)
        assert list(ys) == sorted(ys)
        assert ys[-1] == layer.latencies.max_ns


few = st.lists(st.tuples(st.integers(0, 2**42), st.integers(1, 20)), min_size=1, max_size=9)


@given(few, st.sampled_from([0, 10, 25, 50, 75, 90, 95, 99, 99.9, 100]))
def test_the_curve_goes_through_the_percentiles(sample: list[tuple[int, int]], p: float) -> None:
    of = Histogram()
    for ns, count in sample:
        of.add(ns, count)
    charts = Charts()
    charts.percentiles("one", [Layer(("one",), "device", of)])
    points = json.loads(charts.json())[0]["layers"][0]["points"]
    rank = max(1, ceil(Fraction(str(p)) * of.count / 100))
    # The place of this very read: half of it is below
    place = log10(of.count / (of.count - rank + 0.5))
    assert [ns for x, ns in points if x <= place + 1e-4][-1] == of.percentile(p)


def test_statements_of_all_backends_are_added_up() -> None:
    queries = [some_query(text_hash="1"), some_query(text="select 2", text_hash="2")]
    page = page_of(some_backend(queries=queries), some_backend(pid=7, queries=queries[:1]))
    table = page.table("Statements, those that took longest first")
    assert list(table.rows) == ["1. select $1", "2. select 2"]
    assert table.head[1:4] == ["calls", "errors", "backends"]
    assert table.rows["1. select $1"][:4] == ["6", "2", "2", "8.00 s"]
    assert table.rows["2. select 2"][:4] == ["3", "1", "1", "4.00 s"]


def test_backends_and_statements_beyond_the_most_are_added_up() -> None:
    queries = [some_query(text=f"select {n}", text_hash=str(n)) for n in range(23)]
    backends = [Backend(pid, io=[DEVICE]) for pid in range(100, 122)]
    page = page_of(*backends, some_backend(queries=queries))
    rows = page.table("Backends, those that read longest first").rows
    assert len(rows) == 21
    assert sum(number(cells[0]) for cells in rows.values()) == sum(
        r.count for b in [*backends, some_backend()] for r in b.io
    )
    rows = page.table("Statements, those that took longest first").rows
    assert rows["(3 more, in --format json)"][0] == "9"
    assert sum(number(cells[0]) for cells in rows.values()) == 69


def test_what_was_not_measured_is_never_zero() -> None:
    unknown = some_reads([(5_000, 3)], source="unknown")
    page = page_of(some_backend(io=[unknown], queries=[]))
    assert "Where they were served: not measured." in page.text
    assert page.table("All reads: which reads they were").rows["unknown"][2] == "not measured"
    assert "from the device" not in page.text
    nothing = page_of(Backend(1), probes=Probes("bcc", "kprobe", "none", ["reads: no probe"]))
    assert "Reads: not measured." in nothing.text
    assert "Not measured: reads: no probe" in nothing.text
    assert nothing.charts == []
    assert "No backend was seen." in page_of().text


def test_how_it_was_measured_and_what_was_lost_is_told() -> None:
    page = page_of(
        some_backend(failed={"read": Excluded(3, 0, 0, 9_000)}),
        lost=Lost(1200, queries=1, in_flight={"read": 2}),
    )
    assert "Reads by fentry (vfs_read, vfs_readv), queries by USDT, engine libbpf." in page.text
    assert "The shortest read that was seen took 4.00 µs." in page.text
    assert "Lost, and in no number below: 1,200 reads" in page.text
    assert "Under way when tracing stopped: 2 reads." in page.text
    assert "failed 3 in 9.00 µs" in page.text
    assert ("p", "class", "warning") in page.attributes
    assert ("p", "class", "warning") not in page_of(some_backend()).attributes


def test_no_line_of_a_sentence_ends_between_a_number_and_its_unit() -> None:
    assert parts.paragraphs(["Of 4.00 µs 93 % by <b>, 12 times."]) == (
        "<p>Of 4.00&nbsp;µs 93&nbsp;% by &lt;b&gt;, 12 times.</p>"
    )


def test_a_simulated_tablespace_says_so() -> None:
    spaces = [Tablespace("slow", "/mnt/x", "ext4", "loop0", simulated=True)]
    reads = [some_reads([(5_000, 3)], kind="heap", tablespace="slow")]
    page = page_of(some_backend(io=reads), tablespaces=spaces)
    assert "Simulated: tablespace slow lies on a simulated device." in page.text
    assert "simulated" in page.table("By tablespace").rows["slow"][-1]


# What it lets in, and what it loads


def hostile() -> str:
    reads = some_reads([(5_000, 3)], relation=HOSTILE, kind="heap", tablespace=HOSTILE)
    backend = some_backend(
        io=[reads], datname=HOSTILE, usename=HOSTILE, application_name=HOSTILE,
        backend_type=HOSTILE, queries=[some_query(text=HOSTILE)],
    )  # fmt: skip
    return html_page.render(
        some_capture(
            backend,
            some_backend(pid=9),
            tablespaces=[Tablespace(HOSTILE, HOSTILE, HOSTILE)],
            probes=Probes("libbpf", "fentry", "usdt", [HOSTILE]),
        )
    )


def test_text_of_a_capture_stays_text() -> None:
    text = hostile()
    page = HtmlPage(text)
    assert len(page.scripts) == 3
    assert len(page.styles) == 1
    assert not [of for of in page.attributes if of[0] == "img"]
    assert not [of for of in page.attributes if of[1].startswith("on")]
    assert f"1. {HOSTILE_SHOWN}" in page.text
    assert page.table("By relation").rows[f"{HOSTILE_SHOWN} (heap)"]
    for raw in ("\x00", "\x1b", "\u2028", "\u202e", "\ud800"):
        assert raw not in text
    text.encode()


def test_the_data_cannot_end_its_script() -> None:
    text = html_page.render(lab_result())
    data = HtmlPage(text).scripts[0]
    assert not set("<>&\u2028\u2029") & set(data)
    assert data.isascii()
    assert HOSTILE_SHOWN in HtmlPage(text).charts[0]["layers"][0]["keys"][0]


def lab_result() -> Any:
    named = lab_results.named(lab_results.SSD, HOSTILE)
    result = lab_results.pages_result((named,), runs=2)
    for cell in result.cells:
        cell.storage = named.name
    return result


def test_nothing_is_loaded_or_sent() -> None:
    for text in (hostile(), html_page.render(lab_result())):
        page = HtmlPage(text)
        loading = {"src", "srcset", "data", "action", "formaction", "poster", "background"}
        assert not [of for of in page.attributes if of[1] in loading]
        links = [value for _, name, value in page.attributes if name == "href"]
        assert links
        assert all(link.startswith("#") for link in links)
        assert not re.search(r"url\(|@import|@font-face", "".join(page.styles))
        ours = "".join(file.read_text() for file in ASSETS.glob("*.js"))
        assert not re.search(r"https?:|fetch|XMLHttp|innerHTML|eval|import\(", ours)


def test_the_policy_lets_nothing_run_but_the_scripts_of_the_page() -> None:
    text = html_page.render(some_capture(some_backend()))
    page = HtmlPage(text)
    (policy,) = (v for _, n, v in page.attributes if n == "content" and "default-src" in v)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["form-action"] == rules["base-uri"] == "'none'"
    # The first script is data, which no browser runs
    told = [b64encode(sha256(s.encode()).digest()).decode() for s in page.scripts[1:]]
    assert rules["script-src"] == " ".join(f"'sha256-{one}'" for one in told)
    (style,) = page.styles
    assert rules["style-src"] == f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'"
    assert not [of for of in page.attributes if of[1] == "style"]
    assert text.index("Content-Security-Policy") < text.index("<style>")


def test_every_link_leads_somewhere_on_the_page() -> None:
    """Also where two backends had one pid, one after the other."""
    page = page_of(some_backend(), some_backend(pid=7), some_backend(pid=7))
    places = {value for _, name, value in page.attributes if name == "id"}
    links = [value[1:] for _, name, value in page.attributes if name == "href"]
    assert set(links) <= places
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_the_same_file_makes_the_same_page() -> None:
    assert html_page.render(some_capture(some_backend())) == html_page.render(
        some_capture(some_backend())
    )


def test_a_page_is_not_large() -> None:
    """Of all drawing, styles and uPlot less than 90 kB; docs/guide/report.md says so."""
    assert len(html_page.render(some_capture()).encode()) < 90_000


def test_uplot_is_the_released_one_with_its_licence() -> None:
    note = (ASSETS / "uplot" / "README.md").read_text()
    told = dict(re.findall(r"^    ([0-9a-f]{64})  (\S+)$", note, re.MULTILINE))
    names = {"uPlot.iife.min.js", "uPlot.min.css"}
    assert set(told.values()) == names
    for digest, name in told.items():
        assert sha256((ASSETS / "uplot" / name).read_bytes()).hexdigest() == digest
    (version,) = re.findall(r"^uPlot ([\d.]+), MIT", note)
    assert f"(v{version})" in (ASSETS / "uplot" / "uPlot.iife.min.js").read_text()
    assert "Permission is hereby granted, free of charge" in page_of(some_backend()).text
    assert "Leon Sorokin" in page_of(some_backend()).text


def schemes() -> dict[str, dict[str, str]]:
    """The colours of page.css: those of paper and daylight, and those that the dark changes."""
    found = re.findall(r"--(\w+): (#[0-9a-f]{6})", (ASSETS / "page.css").read_text())
    light: dict[str, str] = {}
    dark: dict[str, str] = {}
    for name, colour in found:
        (dark if name in light else light)[name] = colour
    return {"light": light, "dark": light | dark}


def contrast(one: str, other: str) -> float:
    """By WCAG 2.2: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_told_from_the_paper(scheme: str) -> None:
    colours = schemes()[scheme]
    drawn = {"page_cache", "readahead_issued", "device", "wait", "unknown", "all"}
    drawn |= {f"s{n}" for n in range(6)}
    for name in drawn:
        assert contrast(colours[name], colours["paper"]) >= 3, name
    for name in ("ink", "dim", "link"):
        for paper in ("paper", "raised"):
            assert contrast(colours[name], colours[paper]) >= 4.5, (name, paper)
    assert contrast(colours["ink"], colours["mark"]) >= 4.5


# The command


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "taken.json"
    documents.write(some_capture(some_backend()), path)
    return path


def test_the_page_is_printed_or_written_for_its_owner_alone(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--format", "html", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed == html_page.render(documents.load(file))
    out = tmp_path / "page.html"
    assert main(["report", "--format", "html", "-o", str(out), str(file)]) == 0
    assert out.read_text() == printed
    assert out.stat().st_mode & 0o777 == 0o600
    assert main(["report", "--format", "html", "-o", str(out), str(file)]) == 2


def test_page_costs_have_no_page(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--planner", "--format", "html", str(file)]) == 2
    assert "--planner has no form html: text or json" in capsys.readouterr().err


# Lab results


def pages(**fields: Any) -> HtmlPage:
    result = lab_results.pages_result(**fields)
    return HtmlPage(html_page.render(result))


def test_a_storage_has_sequential_and_random_in_one_chart() -> None:
    from pgtrace.lab.core.figures import figures

    result = lab_results.pages_result()
    page = HtmlPage(html_page.render(result))
    told = {chart["title"]: chart for chart in page.charts}
    drawn = told["hdd (simulated): how long a read took, random over sequential"]
    of = {f.pattern: f for f in figures(result) if f.storage.name == "hdd"}
    for layer in drawn["layers"]:
        source, pattern = layer["keys"]
        key = {"page cache": "page_cache"}.get(source, source)
        assert sum(layer["counts"]) == of[pattern].by_source[key].reads
        assert layer["outlined"] == (pattern == "random")
        assert layer["group"] == ["sequential", "random"].index(pattern)
    for group in (0, 1):
        shares = [sum(x["shares"]) for x in drawn["layers"] if x["group"] == group]
        assert sum(shares) == pytest.approx(100, abs=0.01)


def test_whatever_is_of_a_simulated_storage_says_so() -> None:
    page = pages()
    for chart in page.charts:
        if any(name in chart["title"] for name in ("hdd", "ssd")):
            assert "simulated" in chart["title"]
    rows = [row for table in page.tables for row in table.rows]
    names = [row for row in rows if row.startswith(("hdd", "ssd"))]
    assert names
    assert all("(simulated)" in row for row in names)
    every = page.charts[0]
    assert every["title"] == "Percentiles of a read, every storage"
    assert {layer["keys"][0] for layer in every["layers"]} == {
        "hdd (simulated)", "ssd (simulated)", "memory",
    }  # fmt: skip
    assert "Simulated: hdd, ssd." in page.text


def test_the_figures_are_those_of_the_text_report() -> None:
    from pgtrace.lab.core.figures import figures
    from pgtrace.lab.pages.findings import findings

    result = lab_results.pages_result()
    page = HtmlPage(html_page.render(result))
    table = page.table("All runs added up")
    for at, of in enumerate(figures(result)):
        row = {name: cells[at] for name, cells in table.listed}
        assert table.head[1 + at] == of.pattern
        assert number(row["reads"]) == of.all.reads
        assert row["mean per block"] == units.duration(of.all.block_ns or 0)
        assert row["elapsed per block"] == units.duration(of.page_ns or 0)
        assert row["p99"] == units.duration(of.all.latencies.percentile(99) or 0, 2)
    ratios = page.table("Random by sequential, per 8 KiB, over paired runs")
    (hdd,) = (
        f for f in findings(result)
        if isinstance(f, Ratio) and (f.storage, f.details.by) == ("hdd", "read latency")
    )  # fmt: skip
    assert hdd.value
    assert hdd.low
    assert hdd.high
    shown = ratios.rows["hdd (simulated), by read latency"]
    assert shown[0] == units.number(hdd.value)
    assert shown[1] == f"{units.number(hdd.low)} to {units.number(hdd.high)}"
    assert shown[2] == "5"


def test_document_002_stands_beside_with_its_block_size() -> None:
    table = pages().table("Means per read of 32 kB, and ours, per 8 KiB")
    assert table.head[1:4] == ["sequential", "random", "ratio"]
    assert table.rows["SSD, OCZ RevoDrive3"][:3] == ["49.6 µs", "484 µs", "9.7"]
    assert len(table.rows["hdd (simulated)"]) == 5


def test_a_partial_or_empty_result_says_so() -> None:
    result = lab_results.pages_result(runs=1)
    result.partial = True
    assert (
        "Partial: 1 of 1 runs; it did not get to the rest."
        in HtmlPage(html_page.render(result)).text
    )
    result.cells = []
    page = HtmlPage(html_page.render(result))
    assert "No run was finished" in page.text
    assert page.charts == []


def with_findings(*found: PlannerFinding) -> HtmlPage:
    result = lab_results.pages_result(runs=2)
    result.findings += found
    return HtmlPage(html_page.render(result))


def test_where_plans_cross_is_drawn_as_measured_and_as_believed() -> None:
    page = with_findings(lab_results.crossing(0.03, 0.02, 0.04, 5))
    chart = page.charts[-1]
    assert chart["title"].startswith("hdd (simulated): plans over selectivity")
    assert [panel["name"] for panel in chart["panels"]] == ["measured time", "planner's cost"]
    assert chart["panels"][0]["marks"] == [[3.0, "index | sequential"]]
    assert chart["panels"][1]["marks"] == [[5.0, "index | sequential"]]
    told = {(x["keys"][0], x["panel"]): x["points"] for x in chart["layers"]}
    assert told["index", 0] == [[0.1, 1e7], [10.0, 2e9]]
    assert told["sequential", 1] == [[0.1, 900.0], [10.0, 900.0]]
    table = page.table_of(len(page.charts) - 1)
    assert table.rows["10 %"] == ["1.00 s", "2.00 s", "900", "5,000"]
    where = page.table("hdd (simulated): up to which share of the rows the first plan is faster")
    assert where.rows["  index and sequential"][:3] == ["3 %", "2 to 4 %", "5 %"]


def test_how_certain_each_plan_s_time_is_is_drawn_and_told() -> None:
    """Of a plan that was stopped nothing is known but how long it took at least."""
    between = {"index": [[0.008, 0.012], None], "sequential": [[0.9, 1.1], [0.8, 1.25]]}
    page = with_findings(lab_results.crossing(0.03, between=between))
    chart = page.charts[-1]
    assert chart["title"].endswith(", with 95 % intervals")
    told = {(x["keys"][0], x["panel"]): x.get("intervals") for x in chart["layers"]}
    assert told["index", 0] == [[8e6, 1.2e7], None]
    assert told["sequential", 0] == [[9e8, 1.1e9], [8e8, 1.25e9]]
    assert not told["index", 1] and not told["sequential", 1]
    row = page.table_of(len(page.charts) - 1).rows["10 %"]
    assert row[:2] == ["1.00 s (800 ms to 1.25 s)", "2.00 s"]


def test_what_a_random_page_cost_loses_is_drawn() -> None:
    details = RangeDetails([1.0, 4.0], [2.0, 0.1], 4.0, 4.0, 4.0, 8, sql="ALTER TABLESPACE <x>")
    page = with_findings(Range("3 to 6", "hdd", 4.0, 3.0, 6.0, 5, details=details))
    chart = page.charts[-1]
    assert chart["panels"][0]["band"] == [3.0, 6.0]
    assert chart["layers"][0]["points"] == [[1.0, 50.0], [4.0, 2.5]]
    assert page.table_of(len(page.charts) - 1).rows["4"] == ["100 ms", "2.5 %"]
    assert "hdd (simulated), random_page_cost: 3 to 6." in page.text
    assert "ALTER TABLESPACE <x>" in page.text
    for change in ({"values": [0.0, 4.0]}, {"fastest_s": 0.0}, {"regret_s": []}):
        odd = msgspec.structs.replace(details, **change)
        found = Range("3 to 6", "hdd", details=odd)
        assert len(with_findings(found).charts) == len(page.charts) - 1
    assert len(with_findings(Range("not decided", "hdd")).charts) == len(page.charts) - 1


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": {"index": [0.01], "sequential": [1.0, 1.0]}},
        {"seconds": {"index": [0.0, -1.0], "sequential": [1.0, 1.0]}},
        {"selectivities": []},
        {"between": {"index": [None, None]}},
        {"between": {"index": [None], "sequential": [None, None]}},
        {"between": {"index": [[0.02, 0.01], None], "sequential": [None, None]}},
        {"between": {"index": [[-1.0, 0.02], None], "sequential": [None, None]}},
    ],
)
def test_lists_that_do_not_belong_together_are_not_drawn(change: dict[str, Any]) -> None:
    charts = len(pages(runs=2).charts)
    assert len(with_findings(lab_results.crossing(0.03, **change)).charts) == charts


@pytest.mark.parametrize(
    "change", [{"seconds": "many"}, {"first": "<script>"}, {"circumstance": None}]
)
def test_details_of_another_shape_are_no_lab_result(change: dict[str, Any]) -> None:
    result = lab_results.pages_result(runs=1)
    result.findings = [lab_results.crossing(0.03)]
    whole = json.loads(encoding.encode(result))
    assert result_file.decode(json.dumps(whole).encode()) == result
    whole["findings"][0]["details"] |= change
    with pytest.raises(ValueError, match="findings"):
        result_file.decode(json.dumps(whole).encode())
