"""What `list` and `doctor` print, and how doctor judges what it was shown."""

import os
import re
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgtrace import sudo
from pgtrace.commands import doctor, list_
from pgtrace.doctor import Ability, Group, cost, engines, exit_code, groups, host, tracing
from pgtrace.doctor import server as of_server
from pgtrace.doctor.verdict import verdict
from pgtrace.errors import PermissionDeniedError, TargetError
from pgtrace.linux.storage import Device, Storage
from pgtrace.postgres import discovery
from pgtrace.postgres.activity import Activity
from pgtrace.postgres.discovery import Backend, Place, Server
from pgtrace.postgres.proc import Process

ALL = (1 << 41) - 1


def process(pid: int) -> Process:
    return Process(pid, 1, pid, 1, 101, "postgres", "/bin/postgres", False, "postgres: …", False)


def server(**changes: Any) -> Server:
    values: dict[str, Any] = {
        "postmaster": process(100),
        "version": "15.18",
        "place": Place("/srv/data", (1, 2), None),
        "block_size": 8192,
        "port": 5432,
        "socket_directory": "/tmp",
        "cluster_name": "15/main",
    }
    return Server(**values | changes)


def backend(pid: int, kind: str | None = "client backend", **fields: Any) -> Backend:
    return Backend(process(pid), 100, kind, **fields)


BACKENDS = [
    backend(100, "postmaster"),
    backend(101, "logical replication launcher"),
    backend(5167, datname="digoal", usename="postgres", client_addr="[local]", activity="idle"),
    backend(5168, client_addr="[local]"),
    backend(5169, "parallel worker", datname="digoal", usename="postgres", leader_pid=5167),
    backend(5170, None),
    backend(5171, datname="\x1b[31m", usename="a", client_addr="[local]", activity="SELECT"),
]


RUNNING = [
    (BACKENDS[0], Activity()),
    (BACKENDS[1], Activity()),
    (BACKENDS[2], Activity("idle")),
    (BACKENDS[3], Activity()),
    (BACKENDS[4], Activity("active")),
    (BACKENDS[5], Activity()),
    (BACKENDS[6], Activity("active", 4711.5, "IO", "select \x1b from " + "t" * 80)),
]


def test_list_says_what_runs_longest_first_and_sums_up_the_rest() -> None:
    running = [
        *RUNNING,
        (
            replace(BACKENDS[2], activity="idle in transaction"),
            Activity("idle in transaction", 12.25, "Client"),
        ),
    ]
    assert list_.table(server(), running) == [
        "PostgreSQL 15.18  15/main  port 5432  /srv/data",
        " PID      FOR  WAIT    DATABASE  USER      STATEMENT",
        r"5171  4,712 s  IO      \x1b[31m  a         select \x1b from ttttttttttttttttttt…",
        "5167   12.2 s  Client  digoal    postgres  with 1 parallel worker: (idle in tra…",
        "5168        ?          ?         ?         ?",
        "Idle: 1 (postgres at digoal)",
        "Of the server itself: postmaster, logical replication launcher, ?",
    ]
    assert all(len(line) <= 80 for line in list_.table(server(), running))


def test_list_of_a_server_where_nothing_runs() -> None:
    assert list_.table(server(), RUNNING[:2])[1:] == [
        "Nothing runs.",
        "Of the server itself: postmaster, logical replication launcher",
    ]


def test_list_of_every_process() -> None:
    lines = list_.table_of_all(server(), RUNNING)
    assert lines == [
        "PostgreSQL 15.18  15/main  port 5432  /srv/data",
        " PID  BACKEND TYPE                  DATABASE  USER      ACTIVITY",
        " 100  postmaster",
        " 101  logical replication launcher",
        "5167  client backend                digoal    postgres  idle",
        "5168  client backend                ?         ?         ?",
        "5169  parallel worker               digoal    postgres  for 5167",
        "5170  ?",
        r"5171  client backend                \x1b[31m  a         SELECT",
    ]
    assert all(len(line) <= 80 for line in lines)


def test_list_json_says_null_for_what_is_not_known() -> None:
    found = list_.as_json(server(port=None), RUNNING)
    assert found["port"] is None
    assert found["backends"][2] == {
        "pid": 5167,
        "backend_type": "client backend",
        "datname": "digoal",
        "usename": "postgres",
        "application_name": None,
        "client_addr": "[local]",
        "client_port": None,
        "activity": "idle",
        "leader_pid": None,
        "seconds": None,
        "wait_event_type": None,
        "query": None,
    }


@pytest.mark.parametrize(
    ("hidden", "error"), [(None, TargetError), ("it is another's", PermissionDeniedError)]
)
def test_list_without_a_server_fails(
    monkeypatch: pytest.MonkeyPatch, hidden: str | None, error: type[Exception]
) -> None:
    import argparse

    monkeypatch.setattr(discovery, "servers", list)
    monkeypatch.setattr(list_, "hidden_servers", lambda: hidden)
    with pytest.raises(error):
        list_.COMMAND.run(argparse.Namespace(json=False))


@pytest.mark.parametrize(
    ("capabilities", "expected", "before_multi_uprobes"),
    [
        (ALL, [True, True, True], True),
        (0, [False, False, False], False),
        (1 << 38 | 1 << 39, [True, True, False], False),
        (1 << 39, [False, False, False], False),
        (1 << 21, [True, True, False], True),
        (1 << 19, [False, False, False], False),
        (1 << 2, [False, False, False], False),
        (1 << 19 | 1 << 2, [False, False, True], False),
    ],
)
def test_privileges(capabilities: int, expected: list[bool], before_multi_uprobes: bool) -> None:
    """Before Linux 6.6 CAP_SYS_ADMIN alone permits uprobes."""
    for release in "6.6", "6.1":
        found = host.privileges(capabilities, True, True, release)
        assert [ability.ok for ability in found] == [*expected, None]
        assert all(ability.remedy for ability in found if ability.ok is False)
        expected = [expected[0], before_multi_uprobes, expected[2]]


def test_containers_are_told_apart() -> None:
    found = host.privileges(ALL, whole_host=False, first_pid_namespace=False)
    assert [ability.name for ability in found if ability.ok is False] == [
        "user namespace",
        "PID namespace",
    ]


@pytest.mark.parametrize(
    ("release", "ok"),
    [("6.18.44-fc", True), ("5.10.0-28-amd64", True), ("5.8", True), ("5.4.0", False)],
)
def test_kernel(release: str, ok: bool) -> None:
    assert host.kernel(release, "x86_64").ok is ok


@pytest.mark.parametrize(
    ("text", "ok"),
    [
        ("[none] integrity confidentiality\n", True),
        ("none [integrity] confidentiality\n", True),
        ("none integrity [confidentiality]\n", False),
        (None, None),
    ],
)
def test_lockdown(text: str | None, ok: bool | None) -> None:
    assert host.lockdown(text).ok is ok


def test_kernel_configuration() -> None:
    whole = {"BPF_SYSCALL": "y", "BPF_EVENTS": "y", "PERF_EVENTS": "y"}
    assert host.configuration(whole).ok is True
    lacking = host.configuration(whole | {"BPF_EVENTS": "n"})
    assert lacking.ok is False
    assert "CONFIG_BPF_EVENTS" in lacking.reason
    assert host.configuration(None).ok is None


WORKS: dict[str, str | None] = {"kprobe": None}


@pytest.mark.parametrize(
    ("libbpf", "bcc", "judged"),
    [
        (WORKS, WORKS, [("libbpf, the first choice", True), True, True]),
        (WORKS, "no headers: get them", [("libbpf, the first choice", True), True, None]),
        ("no BTF", WORKS, [("bcc, as the kernel has no BTF", True), None, True]),
        ("no BTF", "no headers: get them", [("none works here, see below", False), False, False]),
    ],
)
def test_engines(libbpf: dict[str, str | None] | str, bcc: Any, judged: list[Any]) -> None:
    """What one lacks is a fault to mend only where the other cannot trace either."""
    chosen, *both = engines.engines({"libbpf": libbpf, "bcc": bcc})
    assert [(chosen.reason, chosen.ok), *(one.ok for one in both)] == judged


def test_object_file(tmp_path: Path) -> None:
    missing = host.object_file(tmp_path / "pgtrace.bpf.o")
    assert missing.ok is False
    assert missing.remedy


def test_reads_by_the_best_way() -> None:
    ways = {"fentry": None, "kprobe": "refused", "tracepoint": None}
    best, *others = tracing.reads(ways)
    assert best.ok is True
    assert "fentry" in best.reason
    assert [ability.ok for ability in others] == [True, None, True]


def test_a_reason_is_given_once() -> None:
    ways = {"kprobe": "reads by kprobe: the kernel was built without kprobes", "tracepoint": None}
    _, kprobe, _ = tracing.reads(ways)
    assert kprobe.reason == "the kernel was built without kprobes"


@pytest.mark.parametrize(
    ("there", "typed"),
    [
        (True, "sudo pgtrace capture -o 'a file'"),
        (False, "sudo {}/pgtrace capture -o 'a file'"),
    ],
)
def test_the_command_as_root(
    there: bool, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its whole path, where sudo would not find it, and with all that was typed."""
    command = tmp_path / "pgtrace"
    command.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(command), "capture", "-o", "a file"])
    if there:
        monkeypatch.setattr(sudo, "_PATH", str(tmp_path))
        monkeypatch.setattr(sudo, "_PATH_OF_DEBIAN", str(tmp_path))
    assert sudo.as_root() == typed.format(tmp_path)
    assert sudo.as_root("doctor") == f"{typed.format(tmp_path).partition(' capture')[0]} doctor"


@pytest.mark.parametrize("program", ["-c", "/x/pgtrace/__main__.py"])
def test_the_command_as_root_by_the_interpreter_that_runs(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "list"])
    assert sudo.as_root() == f"sudo {sys.executable} -m pgtrace list"


@pytest.mark.parametrize(("uid", "says"), [(0, "This root lacks"), (1000, "Type: sudo ")])
def test_sudo_is_for_those_who_are_not_root(
    uid: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sudo.os, "geteuid", lambda: uid)
    assert sudo.how().startswith(says)


def test_tracepoints_alone_come_with_their_price() -> None:
    ways = {"fentry": "refused", "kprobe": "refused", "tracepoint": None}
    """Which is said without a figure: none was measured here."""
    reason = tracing.reads(ways)[0].reason
    assert "every system call" in reason
    assert not re.search(r"\d", reason)


def test_reads_by_no_way() -> None:
    found = tracing.reads({"fentry": "refused", "kprobe": "refused", "tracepoint": "no tracefs"})
    assert [ability.ok for ability in found] == [False] * 4


GOOD = Ability("reads", True, "")


@pytest.mark.parametrize(
    ("abilities", "code"),
    [
        ([GOOD], 0),
        ([GOOD, Ability("query probes", False, "")], 0),
        ([GOOD, Ability("attach to queries", False, "", permission=True)], 4),
        ([Ability("load programs", False, "", permission=True)], 4),
        ([Ability("reads", False, "")], 5),
        ([GOOD, Ability("engine", False, "")], 5),
        ([], 5),
    ],
)
def test_exit_code(abilities: list[Ability], code: int) -> None:
    assert exit_code([Group("", abilities)]) == code


def test_nothing_is_loaded_when_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> dict[str, str | None]:
        raise AssertionError("tried")

    monkeypatch.setattr(host, "abilities", lambda: [host.kernel("5.4.0", "x86_64")])
    found = groups(never)
    assert exit_code(found) == 5
    assert [group.abilities[0].reason for group in found[1:3]] == [
        "not tried, because of kernel"
    ] * 2


@pytest.mark.parametrize(
    ("major", "ok"), [(13, False), (14, True), (19, True), (20, None), (None, False)]
)
def test_version(major: int | None, ok: bool) -> None:
    assert of_server.version(f"{major}.1", major).ok is ok


def test_query_probes() -> None:
    assert of_server.query_probes(set(of_server.QUERY_PROBES), ["PortalRun"]).ok is True
    lacking = of_server.query_probes({"query__start"}, ["PortalRun"])
    assert lacking.ok is False
    assert "query__done" in lacking.reason
    none = of_server.query_probes(set(), ["PortalRun"])
    assert none.ok is False
    assert "--enable-dtrace" in none.reason
    # Where exported functions do the same, there is nothing to install
    instead = of_server.query_probes(set(), [])
    assert (instead.ok, instead.remedy) == (True, None)
    assert "by exported functions" in instead.reason


def test_where_sources_are_told() -> None:
    disk = Device("sda", "SCSI", True, 128, None, ())
    there = Storage(Path("/x"), "ext4", "/dev/sda1", "/x", disk, None)
    ability = of_server.sources("data directory", there)
    assert ability.ok is True
    assert "ext4 on sda (SCSI, rotational), read-ahead 128 KiB" in ability.reason
    loop = Device("loop0", "loop", False, 128, None, ("/simulated-ssd",), True)
    there = Storage(Path("/x"), "ext4", "/dev/loop0", "/x", loop, None)
    assert "ext4 on loop0 (loop, simulated)" in of_server.sources("data", there).reason
    zfs = Storage(Path("/x"), "zfs", "pool/x", "/x", None, "ZFS reads in threads of its own")
    ability = of_server.sources("data directory", zfs)
    assert ability.ok is False
    assert "`unknown`, for ZFS reads" in ability.reason


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ([33.4, 28.0, 41.2, 20.0, 50.0], "33 ns more (28 to 41)"),
        ([-3.0, 5.0, 12.4, 13.0, -100.0], "no more that could be told: at most 12 ns"),
        ([-3.0, -2.0, -4.0], "no more that could be told: at most 1 ns"),
    ],
)
def test_a_cost_within_noise_is_no_number(added: list[float], words: str) -> None:
    assert cost.said(added) == words


def test_a_cost_is_what_a_call_takes_longer() -> None:
    """Here a call is as many steps of a loop, and ten times as many while it is traced. Of a shared
    processor the same takes twice as long from one moment to the next.
    """
    pid, steps = os.getpid(), [100]

    @contextmanager
    def attach(traced: int) -> Iterator[str]:
        assert traced == pid
        steps[0] = 1000
        yield "ten times"
        steps[0] = 100

    def call() -> None:
        for _ in range(steps[0]):
            pass

    alone = cost._time(call)
    (added,), way = cost._added(attach, pid, call)
    assert way == "ten times"
    assert 3 * alone < statistics.median(added) < 27 * alone


def test_doctor_lines() -> None:
    """What to type stands below what is missing alone, and not where it would change nothing."""
    group = Group(
        "Host",
        [
            Ability("kernel", True, "6.18", "never shown"),
            Ability("lockdown", None, "cannot be read", "mount it"),
            Ability("tracefs", False, "not mounted \x1b", "mount -t tracefs " + "x" * 80),
        ],
    )
    assert list(doctor.lines(group, None)) == [
        "Host",
        "  ok  kernel: 6.18",
        "  -   lockdown: cannot be read",
        r"  no  tracefs: not mounted \x1b",
        "      → mount -t tracefs " + "x" * 80,
    ]
    narrow = list(doctor.lines(Group("Host", [Ability("a", True, "word " * 30)]), 60))
    assert len(narrow) > 3
    assert all(len(line) <= 60 for line in narrow)


HOST = Group("Host", [Ability("kernel", True, "6.18")])
READS = Group("Reads", [Ability("reads", True, "by tracepoint"), Ability("tracepoint", True, "")])
QUERIES = Group("Queries", [Ability("uprobes", True, "")])
GOOD_SERVER = Group("Server 15.1 in /a (postmaster 1)", [Ability("version", True, "15.1")])
BAD_SERVER = Group(
    "Server 17.1 in /b c (postmaster 2)",
    [
        Ability("query probes", False, "the binary has no USDT probes"),
        Ability("tablespace 5", False, "overlay"),
    ],
)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            [HOST, READS, QUERIES, GOOD_SERVER],
            "Reads can be traced here, by tracepoint, with the queries that make them and where "
            "each was served.",
        ),
        (
            [HOST, READS, QUERIES, GOOD_SERVER, BAD_SERVER],
            "Reads can be traced here, by tracepoint; what cannot be told: which query a read was "
            "for, of the server in /b c; where reads in the tablespace 5 were served, of the "
            "server in /b c.",
        ),
        (
            [HOST, READS, QUERIES],
            "Reads can be traced here, by tracepoint; no server was found to look at.",
        ),
        (
            [HOST, READS, Group("Queries", [Ability("uprobes", False, "no uprobes")]), GOOD_SERVER],
            "Reads can be traced here, by tracepoint, but not the queries that make them: no "
            "uprobes.",
        ),
        (
            [Group("Host", [Ability("load programs", False, "no CAP_BPF", permission=True)])],
            "Nothing can be traced by this user: no CAP_BPF.",
        ),
        (
            [Group("Host", [Ability("kernel", False, "5.4 is too old")])],
            "Nothing can be traced on this host: 5.4 is too old.",
        ),
        (
            [HOST, Group("Reads", [Ability("reads", False, "no probe type works")])],
            "Nothing can be traced on this host: no probe type works.",
        ),
    ],
)
def test_the_verdict_is_one_sentence(found: list[Group], said: str) -> None:
    assert verdict(found) == said
