"""A capture of several backends in one screen: the answer first, the same in text and on a page."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import html_page
import large_capture
from captures import (
    CACHED,
    DEVICE,
    HOSTILE,
    HOSTILE_SHOWN,
    some_backend,
    some_capture,
    some_histogram,
    some_query,
    some_reads,
)
from html_page import HtmlPage
from pgtrace.files import documents
from pgtrace.model.capture import Buffers, Capture, Io, Latencies, Probes, Tablespace
from pgtrace.model.encoding import encode
from pgtrace.reporters.document import Table
from pgtrace.reporters.html.opening import opening
from pgtrace.reporters.sections import answer, server, top
from pgtrace.reporters.sections.statements import statements
from pgtrace.reporters.terminal import capture_report, form, server_report
from pgtrace.reporters.view import ORDERS, Choice, Order, View
from pgtrace_command import run
from some_times import MS, probes, spent

SLOW = some_reads([(1_000_000, 300)], source="device", kind="heap", relation="public.orders",
                  tablespace="pg_default", pattern="random")  # fmt: skip
FAST = some_reads([(10_000, 700)], kind="index", relation="public.orders_pkey",
                  tablespace="pg_default")  # fmt: skip
LATENCY = some_query().latency
SPACE = Tablespace("pg_default", "/data", "ext4", "nvme0n1")


def two(**fields: object) -> Capture:
    """Of 4 s each, a statement of two backends: 600 ms of it waiting for the device."""
    own = some_query(text="select * from orders where id = $1", query_id=7, io=[SLOW, FAST])
    others = some_query(text="select 1", query_id=8, io=[])
    usual: dict[str, object] = {"tablespaces": [SPACE]}
    return some_capture(
        some_backend(pid=1, io=[SLOW, FAST], queries=[own, others]),
        some_backend(pid=2, io=[SLOW, FAST], queries=[own]),
        some_backend(pid=3, backend_type="checkpointer", io=[], queries=[]),
        **(usual | fields),
    )


def tables(capture: Capture, choice: Choice | None = None) -> dict[str, Table]:
    parts = server.sections(capture, choice or Choice())
    return {b.caption: b for part in parts for b in part.blocks if isinstance(b, Table)}


def test_it_begins_with_how_much_of_the_time_was_waiting_for_which_device_and_for_what() -> None:
    head, answer, *_ = server_report.render(two()).split("\n\n")
    assert head.startswith("Capture of 2026-01-31 12:00:00 UTC, 10.0 s")
    assert " ".join(answer.split()) == (
        "Statements ran for 12.0 s in 10.0 s: they read for 614 ms of that (5 %), and waited for "
        "nvme0n1 for 600 ms (5 %). 100 % of that waiting was for one statement: "
        "select * from orders where id = $1; 100 % was in public.orders (heap)."
    )


@pytest.mark.parametrize(
    ("of_statements", "said"),
    [
        ([SLOW, FAST], "67 % of all waiting was for one statement: select * from orders where id = "
         "$1; 100 % was in public.orders (heap); 33 % was the autovacuum worker's."),
        ([FAST], "100 % of all waiting was in public.orders (heap); 100 % was the autovacuum "
         "worker's."),
    ],
)  # fmt: skip
def test_shares_are_of_what_is_named(of_statements: list[Io], said: str) -> None:
    """The statements' own waiting is not all, where an autovacuum worker waits as well."""
    found = two()
    for backend in found.backends[:2]:
        backend.io = backend.queries[0].io = of_statements
    found.backends.append(
        some_backend(pid=4, backend_type="autovacuum worker", io=[SLOW], queries=[])
    )
    _, answer, *_ = server_report.render(found.add_up()).split("\n\n")
    assert " ".join(answer.split()).endswith(said)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"probes": Probes("libbpf", "fentry", "memory")},
            "Statements that read ran for",
        ),
        ({"tablespaces": []}, "and waited for the device for 600 ms (5 %)."),
        (
            {"tablespaces": [Tablespace("pg_default", device="loop0", simulated=True)]},
            "and waited for loop0 (simulated) for",
        ),
        (
            {"probes": Probes("libbpf", "fentry", "usdt", operations=["write"])},
            "Reads were not measured.",
        ),
    ],
    ids=["light tier", "no tablespaces", "simulated", "reads not asked for"],
)
def test_it_says_what_is_known(fields: dict[str, object], said: str) -> None:
    assert said in " ".join(server_report.render(two(**fields)).split())


def test_what_io_workers_read_is_beside_the_time_of_statements() -> None:
    """As PostgreSQL 18 has it: they read, and backends wait for them."""
    theirs = some_reads([(1_000_000, 300)], source="device", performed_by="io worker")
    query = some_query(io=[theirs, FAST], waited_ns=250_000_000)
    capture = some_capture(
        *(some_backend(pid=pid, io=[theirs, FAST], queries=[query]) for pid in (1, 2))
    )
    first, second, *_ = answer.verdict(capture, statements(capture))
    assert first.startswith("Statements ran for 8.00 s in 10.0 s: they read for 14.0 ms of that")
    assert second == (
        "Beside that I/O workers read for them for 600 ms, 600 ms of it waiting for the device; "
        "backends waited for that 500 ms."
    )


def test_where_nobody_waited_for_a_device_it_says_what_read_most_and_how_often_it_ran() -> None:
    """As an N+1 does, which is found in the page cache and is slow all the same."""
    latency = some_histogram([(50_000, 9_000)]).to_data()
    many = some_query(
        text="select name from t where id = $1", io=[FAST], calls=9_000, latency=latency
    )
    one = some_query(text="a report", query_id=8, io=[some_reads([(1_000, 30)])], calls=1)
    capture = some_capture(some_backend(io=[FAST], queries=[many, one]), duration_s=3.0)
    said = answer.verdict(capture, statements(capture))
    assert said[0].endswith(", and never waited for the device.")
    assert said[1].startswith("100 % of that reading was for one statement: select name from t")
    assert said[2] == "One statement ran 3,000 times a second: select name from t where id = $1."
    rows = [name for name, _ in tables(capture)[top.STATEMENTS].rows]
    assert rows[0].startswith("select name")


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        (1, "90 % of that reading was for one statement: select 1."),
        (20, "100 % of that waiting was for one statement: select 2."),
    ],
)
def test_of_waiting_that_is_little_nobody_is_named(waits: int, said: str) -> None:
    """1 ms of it beside 99 ms of reading from the page cache says nothing of who is slow."""
    cold = [some_reads([(1_000_000, waits)], source="device"), some_reads([(9_000_000, 1)])]
    cached = [some_reads([(90_000_000, 1)])]
    queries = [
        some_query(text="select 1", io=cached), some_query(text="select 2", query_id=8, io=cold)
    ]  # fmt: skip
    capture = some_capture(some_backend(io=[*cached, *cold], queries=queries))
    assert answer.verdict(capture, statements(capture))[1] == said


def test_waits_for_what_others_asked_for_are_in_the_answer_where_they_are_long() -> None:
    """Such as read-ahead on its way: no read waited for a device that it asked itself."""
    ahead = some_reads([(1_000_000, 500)], source="wait")
    for reads, said in (
        ([SLOW, ahead], "(8 %), and for read-ahead on its way, locks or memory for 0.50 s."),
        ([ahead], "never waited for the device; they waited for read-ahead on its way, locks"),
        ([SLOW, some_reads([(1_000, 5)], source="wait")], "for 0.30 s (8 %)."),
    ):
        capture = some_capture(some_backend(io=reads, queries=[some_query(io=reads)]))
        assert said in answer.verdict(capture, statements(capture))[0]


@pytest.mark.parametrize(
    ("known", "unknown", "said", "figures"),
    [
        # An extension's library lies on another file system than the data
        (FAST, 9_000, "; how much of it was waiting for the device is not measured.",
         ["not measured", "not measured"]),
        (SLOW, 9_000, ", and waited for nvme0n1 for at least 0.30 s (8 %).",
         ["at least 300 ms, 7.5 % of statements", "not measured"]),
        (FAST, 1, ", and never waited for the device, as far as is known.",
         ["at least 0 ns, 0 % of statements", "100 %"]),
    ],
    ids=["nearly all", "beside a device", "hardly any"],
)  # fmt: skip
def test_of_reads_of_no_known_source_it_is_not_said_that_they_did_not_wait(
    known: Io, unknown: int, said: str, figures: list[str]
) -> None:
    reads = [known, some_reads([(100_000, unknown)], source="unknown")]
    query = some_query(io=reads)
    capture = some_capture(some_backend(io=reads, queries=[query]), tablespaces=[SPACE])
    assert answer.verdict(capture, statements(capture))[0].endswith(said)
    found = re.findall(r"<dt>.*?</dt><dd>(.*?)</dd>", opening(capture))
    assert found[:2] == figures


def test_what_goes_on_is_in_no_time_of_statements() -> None:
    """Three calls took 4 s, and a scan that has not ended reads for 45 s."""
    calls = some_query(io=[SLOW])
    scan = some_query(
        text="select scan",
        calls=0,
        errors=0,
        latency=Latencies(),
        io=[some_reads([(1_000_000, 45_000)], source="device")],
        unfinished=True,
    )
    backend = some_backend(io=[*calls.io, *scan.io], queries=[calls, scan])
    capture = some_capture(backend, tablespaces=[SPACE], duration_s=60.0)
    assert answer.verdict(capture, statements(capture)) == [
        "Statements whose calls ended ran for 4.00 s in 60.0 s: they read for 0.30 s of that "
        "(8 %), and waited for nvme0n1 for 0.30 s (8 %).",
        "One that had not ended read for 45.0 s, 45.0 s of it waiting for the device.",
        "99 % of all waiting was for one statement: select scan.",
    ]
    assert "<dd>300 ms, 7.5 % of statements</dd>" in opening(capture)


def test_backends_that_were_added_up_are_no_backend_0() -> None:
    """Nor is what they did together held against how long one could have."""
    read = [some_reads([(1_000_000_000, 3_000)], source="device")]
    many = some_backend(pid=0, merged=3_000, io=read, queries=[], application_name=None)
    capture = some_capture(some_backend(pid=7), many)
    text = capture_report.render(capture)
    assert "3,000 backends that ended  postgres@digoal" in text
    assert "Backend 0" not in text
    assert "%" not in text.partition("3,000 backends that ended")[2].partition("mean")[0]
    assert "Backend 0" not in html_page.render(capture)


def test_it_says_what_took_longest_to_last() -> None:
    """Of which files, and who waited for it."""
    sync = {"operation": "fsync", "size": None, "bytes": 0, "blocks": 0, "kind": "wal"}
    slow = some_reads([(9_000_000, 15), (147_000_000, 1)], **sync, call="fdatasync", source="wait")
    fast = some_reads([(9_000, 5)], **sync, call="fsync", source="unknown")
    capture = some_capture(
        some_backend(io=[slow], queries=[]),
        some_backend(pid=2, backend_type="checkpointer", io=[fast], queries=[]),
        probes=Probes("libbpf", "fentry", "usdt", operations=["write", "fsync"]),
    )
    assert answer.verdict(capture, []) == [
        "Fsync and its like took 282 ms of all processes together, 100 % of it as "
        "fdatasync, wal, client backend: 16 calls, p99 147 ms, at most 147 ms.",
        "Reads were not measured.",
        "Nothing was written.",
    ]


def test_what_was_not_measured_is_no_zero() -> None:
    """Neither where reads were served nor how often a statement was called."""
    reads = [some_reads([(5_000, 10)], source="unknown")]
    query = some_query(calls=None, errors=None, latency=None, io=reads)
    capture = some_capture(
        *(some_backend(pid=pid, io=reads, queries=[query]) for pid in (1, 2)),
        probes=Probes("libbpf", "fentry", "memory"),
    )
    text = server_report.render(capture)
    assert "how much of it was waiting for the device is not measured." in " ".join(text.split())
    (line,) = (line for line in text.splitlines() if line.endswith("  select $1"))
    assert line.split()[:2] == ["?", "?"]
    page = HtmlPage(html_page.render(capture))
    assert page.table(top.STATEMENTS).rows["select $1"][:2] == ["not measured", "not measured"]
    heap = [some_reads([(5_000, 10)], source="unknown", kind="heap")]
    unknown = some_capture(some_backend(io=heap, queries=[]))
    found = dict(tables(unknown)["Where blocks were found"].rows)
    assert found["page cache"] == found["device"] == [None] * 5
    assert found["not known"][0] == 10


def test_blocks_are_told_by_level() -> None:
    found = tables(two(buffers=[Buffers("app", 8_000, 2_000)]))["Where blocks were found"]
    assert [(name, row[0]) for name, row in found.rows] == [
        ("shared_buffers", 8_000),
        ("page cache", 1_400),
        ("device", 600),
    ]
    assert [row[1] for _, row in found.rows] == [0.8, 0.14, 0.06]
    unknown = tables(two())["Where blocks were found"]
    assert unknown.rows[0] == ("shared_buffers (needs a connection)", [None, None, "", "", ""])


def test_a_statement_of_many_backends_is_one() -> None:
    (row,) = tables(two())[top.STATEMENTS].rows
    assert row[0] == "select * from orders where id = $1"
    assert row[1][:3] == [600_000_000, 1.0, 2_000]
    assert row[1][4] == 6


@pytest.mark.parametrize("order", ORDERS)
def test_a_relation_has_the_mean_of_its_reads(order: Order) -> None:
    """Of those from the page cache and the device alike; that of the rest, too."""
    cached = some_reads([(10_000, 700)], kind="heap", relation="public.orders")
    rare = [some_reads([(7_001, n)], kind="toast", relation=f"r{n}") for n in range(1, 4)]
    capture = some_capture(
        some_backend(io=[SLOW, cached, FAST, *rare], queries=[]), some_backend(pid=2, io=[SLOW])
    )
    found = tables(capture, Choice(2, order))[top.RELATIONS]
    at = [column.title for column in found.columns].index("per read")
    means = {
        name: row[at] for name, row in tables(capture, Choice(None, order))[found.caption].rows
    }
    assert means["public.orders (heap)"] == (2 * 300 * 1_000_000 + 700 * 10_000) / 1_300
    assert means["public.orders_pkey (index)"] == 10_000
    assert means["r3 (toast)"] == 7_001
    rest = found.rows[-1][1]
    assert isinstance(rest[at], float)
    sums = [row[at] * row[2] for _, row in found.rows]  # type: ignore[operator]
    assert sum(sums) == pytest.approx(capture.totals["read"].total_ns)


def test_a_relation_that_was_not_read_has_no_mean() -> None:
    """As of none, it is no 0."""
    none = some_reads([], kind="heap", relation="public.idle")
    capture = some_capture(*(some_backend(pid=pid, io=[SLOW, none], queries=[]) for pid in (1, 2)))
    (line,) = (
        line for line in server_report.render(capture).splitlines()
        if line.endswith("  public.idle (heap)")
    )  # fmt: skip
    assert line.split()[:5] == ["0", "0", "0", "0", "?"]
    page = HtmlPage(html_page.render(capture)).table(top.RELATIONS)
    cells = dict(zip(page.head[1:], page.rows["public.idle (heap)"], strict=True))
    assert (cells["reads"], cells["per read"]) == ("0", "not measured")


@pytest.mark.parametrize("order", ORDERS)
def test_where_there_is_little_room_relations_have_their_mean_or_bytes(order: Order) -> None:
    def heads(width: int) -> str:
        text = server_report.render(two(), Choice(order=order), width=width)
        (line,) = (line for line in text.splitlines() if line.endswith("  relation"))
        return " ".join(line.split())

    shown = "bytes" if order == "bytes" else "per read"
    assert heads(80) == f"device share reads p99 {shown} random relation"
    assert heads(132) == "device share reads p99 per read bytes random relation"


def test_each_type_of_process_has_a_row() -> None:
    asked = Probes("libbpf", "fentry", "usdt", operations=["read", "fsync"])
    found = tables(two(probes=asked))["Types of processes"]
    assert [column.title for column in found.columns] == [
        "device", "reads", "reading", "fsyncs", "in fsync",
    ]  # fmt: skip
    assert [name for name, _ in found.rows] == ["client backend (2)", "checkpointer"]
    assert found.rows[1][1] == [0, 0, 0, 0, 0]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("large") / "large.json"
    large_capture.write(file, 4 << 20)
    return file


def test_a_large_one_is_one_screen(large: Path) -> None:
    lines = server_report.render(documents.load(large)).splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80


@given(st.integers(1, 20), st.sampled_from(ORDERS))
def test_rows_and_the_rest_are_all(most: int, order: Order) -> None:
    """However many are shown, and whatever comes first."""
    relations = [
        some_reads([((i * 7919) % 1000 + 1, i)], source="device", kind="heap", relation=f"r{i}")
        for i in range(1, 15)
    ]
    capture = some_capture(some_backend(io=relations), some_backend(pid=2))
    found = tables(capture, Choice(most, order))[top.RELATIONS]
    kinds = len({r.relation or r.kind for b in capture.backends for r in b.io})
    assert len(found.rows) == min(kinds, most + 1)
    assert sum(row[2] for _, row in found.rows) == capture.totals["read"].count
    assert sum(row[5] for _, row in found.rows) == capture.totals["read"].bytes
    if order == "reads":
        counts = [row[2] for _, row in found.rows[:most]]
        assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("made", [two, lambda: two(buffers=[Buffers("app", 1, 2)])])
def test_text_and_page_have_the_same_cells(made: object) -> None:
    assert callable(made)
    capture = made()
    page = HtmlPage(html_page.render(capture))
    text = server_report.render(capture, width=200).splitlines()
    for caption, table in tables(capture).items():
        shown = page.table(caption)
        assert shown.head == [table.first, *(column.title for column in table.columns)]
        for name, _ in table.rows:
            cells = ["?" if cell == "not measured" else cell for cell in shown.rows[name]]
            (line,) = (one for one in text if one.endswith(f"  {name}"))
            assert re.split(r" {2,}", line.strip())[:-1] == [cell for cell in cells if cell]


def test_names_and_texts_do_nothing(tmp_path: Path) -> None:
    reads = [some_reads([(10**6, 5)], source="device", kind="heap", relation=HOSTILE)]
    query = some_query(text=HOSTILE, io=reads)
    capture = some_capture(*(some_backend(pid=pid, io=reads, queries=[query]) for pid in (1, 2)))
    shown = server_report.render(capture, width=400)
    assert "\x1b" not in shown
    assert HOSTILE_SHOWN in shown
    assert HOSTILE_SHOWN in HtmlPage(html_page.render(capture)).text


# pgtrace report


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.json"
    path.write_bytes(encode(two()))
    return path


def test_all_of_a_kind_are_shown(file: Path) -> None:
    assert "Statements ran for" not in run("report", file, "--statements").out
    (*_, first, second) = run("report", file, "--statements").out.splitlines()
    assert first.endswith("  select * from orders where id =")
    assert second.strip() == "$1"
    out = run("report", file, "--relations", "--top", 1).out
    assert out.splitlines()[-1].endswith("  (1 more)")
    assert out.splitlines()[-2].endswith("  public.orders (heap)")


def test_one_is_shown_in_full(file: Path) -> None:
    one = run("report", file, "--backend", 2).out
    assert "Backend 2  postgres@digoal" in one
    assert "Backend 1 " not in one
    for words in 7, "FROM Orders":
        shown = run("report", file, "--statement", words).out
        assert "Of 2 backends:\n▶ select * from orders where id = $1\n  6 calls" in shown
        assert "select 1" not in shown


def test_backends_are_shown_one_by_one(file: Path) -> None:
    whole = run("report", file, "--backends").out
    assert [f"Backend {pid} " in whole for pid in (1, 2)] == [True, True]


def test_one_backend_needs_no_summary(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(encode(some_capture(some_backend())))
    assert "Backend 5167  postgres@digoal" in run("report", path).out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--backend", "77"], 2, "has no backend 77: --backends shows those that it has"),
        (["--statement", "nobody"], 2, "has no statement 'nobody': --statements shows those"),
        (["--top", "0"], 2, "argument --top: '0' is not a number above 0"),
        (["--top", "many"], 2, "argument --top: 'many' is not a number above 0"),
        (["--backend", "abc"], 2, "argument --backend: 'abc' is not a pid"),
        (["--sort", "size"], 2, "invalid choice: 'size'"),
        (["--backend", "7", "--sort", "p99"], 2, "--backend is one in full: leave --sort out"),
        (["--statement", "x", "--top", "3"], 2, "--statement is one in full: leave --top out"),
        (["--statements", "--relations"], 2, "--statements and --relations are two reports"),
        (["--top", "3", "--format", "html"], 2, "--top is for text: leave --format html out"),
        (["--backends", "--planner"], 2, "--backends is for text: leave --planner out"),
    ],
)
def test_what_cannot_be_shown_is_said(
    file: Path, arguments: list[str], code: int, said: str
) -> None:
    ended = run("report", file, *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err


def test_statements_keep_what_they_did() -> None:
    """As one query of all backends: calls, latency and reads are sums."""
    (own, *_) = [each for each in statements(two()) if each.reads]
    query = own.as_query()
    assert (query.calls, query.errors) == (6, 2)
    assert query.latency
    assert LATENCY
    assert query.latency.sum == 2 * LATENCY.sum
    assert sum(r.count for r in query.io) == 2_000
    assert len(query.io) == 2
    assert json.loads(encode(some_capture(some_backend(queries=[query]))))["backends"]


def test_where_its_time_went_is_of_all_its_backends(tmp_path: Path) -> None:
    """The parts of a statement add up to the time of its calls in both, and nothing is missing."""
    slept = ("IO", "DataFileRead")
    read = some_reads([(1_300 * MS, 1)], source="device")
    latency = some_histogram([(1_500 * MS, 1)]).to_data()
    query = some_query(
        calls=1,
        latency=latency,
        io=[read],
        times=[spent("cpu", 200 * MS), spent("sleep", 1_300 * MS, slept)],
    )
    both = some_capture(
        *(some_backend(pid=pid, io=[read], queries=[query]) for pid in (1, 2)), probes=probes()
    )
    path = tmp_path / "both.json"
    path.write_bytes(encode(both))
    out = run("report", path, "--statement", "select").out
    assert "Of 2 backends:" in out
    assert "  reading 2.60 s (87 %: device 2.60 s) · CPU 0.40 s (13 %)\n" in out


def test_a_statement_of_many_backends_has_the_text_that_is_known_best() -> None:
    """Whichever of them came first; the application is told where it is one."""
    texts = [(None, False), ("select * fr", True), ("select * from orders", False)]
    queries = [
        some_query(query_id=7, text=text, text_cut=cut, application_name=f"app {cut}")
        for text, cut in texts
    ]
    (one,) = statements(some_capture(*(some_backend(queries=[query]) for query in queries)))
    assert (one.text, one.as_query().text) == ("select * from orders",) * 2
    assert not one.as_query().text_cut
    assert one.as_query().application_name is None
    (of_two,) = statements(some_capture(*(some_backend(queries=[query]) for query in queries[::2])))
    assert of_two.as_query().application_name == "app False"


def test_devices_are_not_named_where_there_are_several() -> None:
    other = some_reads([(1_000_000, 300)], source="device", tablespace="ssd")
    query = some_query(io=[SLOW, other])
    capture = some_capture(
        *(some_backend(pid=pid, io=[SLOW, other], queries=[query]) for pid in (1, 2)),
        tablespaces=[SPACE, Tablespace("ssd", device="sda")],
    )
    assert "and waited for devices for" in " ".join(server_report.render(capture).split())


def test_reads_of_a_process_that_others_charge_are_counted_once() -> None:
    reads = [CACHED, DEVICE]
    capture = some_capture(some_backend(io=reads), some_backend(pid=2, io=[], queries=[]))
    found = tables(capture)["Where blocks were found"]
    assert sum(row[0] or 0 for _, row in found.rows) == capture.totals["read"].blocks


def test_of_reads_alone_types_of_processes_go_by_their_share_of_the_waiting() -> None:
    """With p99; there is no room for these beside writes."""
    long = some_reads([(9_000_000, 700)], kind="heap")
    capture = some_capture(
        some_backend(io=[long], queries=[]),
        some_backend(pid=2, backend_type="autovacuum worker", io=[SLOW, FAST], queries=[]),
        some_backend(pid=3, backend_type="walsender", io=[SLOW, SLOW, SLOW], queries=[]),
    )
    found = tables(capture)["Types of processes"]
    assert [column.title for column in found.columns] == [
        "device", "share", "reads", "p99", "reading",
    ]  # fmt: skip
    assert [(name, [*row[:3], row[4]]) for name, row in found.rows] == [
        ("walsender", [900_000_000, 0.75, 900, 900_000_000]),
        ("autovacuum worker", [300_000_000, 0.25, 1_000, 307_000_000]),
        ("client backend", [0, 0, 700, 6_300_000_000]),
    ]


def backends_shown(order: Order = "device", most: int | None = None) -> list[int]:
    """Their pids, in the order of `report --backends`."""
    slow = some_reads([(9_000_000, 2)], source="device")
    many = some_reads([(1_000, 5_000)])
    large = some_reads([(2_000, 10)], bytes=10**12, blocks=10**8)
    capture = some_capture(
        some_backend(pid=1, io=[many], queries=[]),
        some_backend(pid=2, io=[slow], queries=[]),
        some_backend(pid=3, io=[large], queries=[]),
    )
    text = "".join(form.report(capture, View(part="backends", choice=Choice(most, order))))
    return [int(pid) for pid in re.findall(r"^Backend (\d+) ", text, re.MULTILINE)]


def test_backends_come_in_the_order_that_is_asked_for() -> None:
    """The slowest first, unless told otherwise; as many as asked for, the others added up."""
    assert backends_shown() == [2, 1, 3]
    assert backends_shown("reads") == [1, 3, 2]
    assert backends_shown("bytes")[0] == 3
    assert backends_shown("p99")[0] == 2
    assert backends_shown(most=1) == [2]
