"""pgtrace report --planner: what is shown, what is refused, and what needs a connection."""

import json
from pathlib import Path

import pytest

from pgtrace.__main__ import main
from pgtrace.files import documents
from pgtrace.model.capture import (
    Buffers,
    Capture,
    Cost,
    Host,
    Interval,
    Lost,
    Probes,
    Server,
    Tablespace,
    Total,
)
from pgtrace.postgres.explain import Plans, Statement, shape
from pgtrace.reporters import page_costs


def a_capture(*costs: Cost, intervals: int = 20) -> Capture:
    return Capture(
        started="2026-01-31T12:00:00.000000Z",
        duration_s=float(intervals),
        host=Host("6.1", 2),
        server=Server("15.18"),
        probes=Probes("libbpf", "fentry", "usdt"),
        lost=Lost(),
        totals={"read": Total()},
        backends=[],
        intervals=[Interval(float(i), list(costs)) for i in range(intervals)] if costs else [],
        tablespaces=[Tablespace("fast", "/fast", "ext4", "vdb", False, 128)],
        buffers=[Buffers("app", 900, 100), Buffers(None, 1, 0), Buffers("idle", 0, 0)],
    )


COSTS = (
    Cost("fast", "sequential", "page_cache", "16+", 160, 160_000, 10),
    Cost("fast", "sequential", "device", "16+", 16, 1_600_000, 1),
    Cost("fast", "random", "device", "1", 20, 4_000_000, 20),
    Cost("fast", "first", "device", "1", 1, 200_000, 1),
    Cost("fast", "sequential", "device", "16+", 16, 320_000, 1, "io worker"),
    Cost("fast", "sequential", "device", "16+", 16, 320_000, 1, "io_uring"),
)
SCREEN = """\
Page costs, from a capture of 2026-01-31 12:00:00 UTC, 20.0 s, in 20 intervals

fast: ext4 on vdb, read-ahead 128 KiB, in /fast
                            blocks       reads   a block  95 % interval
  sequential                 3,520         220   10.0 µs  10.0 µs to 10.0 µs
    page cache               3,200         200   1.00 µs  1.00 µs to 1.00 µs
    device                     320          20  not measured: needs 80 more reads
  near                           0           0  not measured: needs 100 more reads
  random                       400         400    200 µs  200 µs to 200 µs
  random : sequential                               20.0  20.0 to 20.0
    device alone                                not measured: sequential needs 80 more reads
  Not counted above, because the first read of a file: 20 blocks.
  Not counted above, because read by I/O workers while the backend may go on: 320 blocks, \
20.0 µs each.
  Not counted above, because read by io_uring while the backend may go on: 320 blocks, \
20.0 µs each at most.

These are times of reads. What a plan costs is elapsed time, which a capture cannot see: \
no value of random_page_cost follows from them.

found in shared_buffers      of blocks  database
                 90.0 %          1,000  app
                100.0 %              1  (shared by all)
"""


def test_the_screen_is_as_promised() -> None:
    assert page_costs.render(a_capture(*COSTS)) == SCREEN


def test_without_intervals_nothing_is_made_up() -> None:
    shown = page_costs.render(a_capture())
    assert "Not measured: no read of a relation is in the intervals" in shown
    assert "sequential" not in shown


def test_a_tablespace_of_few_reads_is_one_line() -> None:
    few = Cost(None, "random", "device", "1", 1, 200_000, 1)
    shown = page_costs.render(a_capture(few))
    assert "\n(tablespace not known)\n  Not measured: 20 reads in all.\n\n" in shown
    assert "sequential" not in shown


def test_no_command_is_ever_printed() -> None:
    assert "alter" not in page_costs.render(a_capture(*COSTS)).lower()


def some_plans() -> Plans:
    changed = Statement(
        "select \x1b[31m * from t where id < $1",
        plans=[([1.1, 2.0], "Index Scan using t_id on t"), ([4.0], "Seq Scan on t")],
    )
    return Plans(
        "app",
        "web",
        "17.2 (Debian)",
        4.0,
        [1.1, 2.0, 4.0],
        ["slow"],
        explained=9,
        changed=[changed],
        failed={'syntax error at or near "$1"': 2},
        others=3,
        elsewhere=5,
        of_others={"ba\x1btch": 7},
    )


def test_plans_are_shown_by_the_settings_that_lead_to_them() -> None:
    lines = page_costs.render(a_capture(*COSTS), some_plans()).partition("(shared by all)\n\n")[2]
    assert lines.splitlines() == [
        "Statements of role web in database app, at random_page_cost 1.1, 2, 4 (now)",
        "The capture is of PostgreSQL 15.18, these plans of 17.2 (Debian).",
        "9 of 11 were explained, not executed; 1 would change its plan. "
        "Plans are generic: of values that are not known.",
        'Not explained, 2: syntax error at or near "$1"',
        "Statements of role ba\\x1btch: 7. They are explained by a connection of that role.",
        "Statements of other databases: 5.",
        "Tablespaces that keep a random_page_cost of their own: slow.",
        "",
        "▶ select \\x1b[31m * from t where id < $1",
        "  1.1, 2          Index Scan using t_id on t",
        "  4               Seq Scan on t",
    ]


def test_json_has_the_same_figures() -> None:
    document = json.loads(page_costs.render_json(a_capture(*COSTS), some_plans()))
    assert document["schema"] == "pgtrace.planner/1"
    (space,) = document["tablespaces"]
    assert space["patterns"]["random"]["all"]["cost"]["value"] == 200_000
    assert space["device_ratio"]["missing"] == "sequential needs 80 more reads"
    assert space["ratio"]["value"] == pytest.approx(20)
    assert document["plans"]["changed"][0]["plans"][1] == [[4.0], "Seq Scan on t"]


def test_a_shape_is_in_the_words_of_explain() -> None:
    scan = {"Node Type": "Index Scan", "Scan Direction": "Backward", "Index Name": "i"}
    scan |= {"Relation Name": "t"}
    join = {"Node Type": "Hash Join", "Join Type": "Left", "Parallel Aware": True}
    total = {"Node Type": "Aggregate", "Strategy": "Hashed", "Partial Mode": "Partial"}
    change = {"Node Type": "ModifyTable", "Operation": "Update", "Relation Name": "t"}
    plan = change | {"Plans": [total | {"Plans": [join | {"Plans": [scan]}]}]}
    assert shape(plan) == (
        "Update on t (Partial Hashed Aggregate (Parallel Hash Join (Left) "
        "(Index Scan Backward using i on t)))"
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "taken.json"
    documents.write(a_capture(*COSTS), path)
    return path


def test_the_command_prints_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--planner", str(file)]) == 0
    assert capsys.readouterr() == (SCREEN, "")
    assert main(["report", "--planner", "--json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["intervals"] == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--planner", "--format", "hlog"], "--planner has no form hlog: text or json"),
        (["--dsn", ""], "--dsn is for --planner"),
    ],
)
def test_what_does_not_go_together_is_refused(
    file: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *arguments, str(file)]) == 2
    assert message in capsys.readouterr().err


def test_a_connection_that_fails_is_exit_7(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dsn = "host=/nonexistent connect_timeout=1"
    assert main(["report", "--planner", "--dsn", dsn, str(file)]) == 7
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) <= 2
