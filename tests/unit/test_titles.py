"""Process titles of PostgreSQL 14 to 19, as `ps` showed them, and names that are odd."""

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fuzzing import fuzzed
from pgtrace.postgres.titles import Title, cluster_name, parse
from pgtrace.terminal_text import decode


def client(activity: str | None = "idle", **fields: object) -> Title:
    values = {"usename": "alice", "datname": "shop", "client_addr": "[local]"} | fields
    return Title("client backend", activity=activity, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("postgres: alice shop [local] idle", client()),
        ("postgres: alice shop [local] idle in transaction", client("idle in transaction")),
        (
            "postgres: alice shop [local] idle in transaction (aborted)",
            client("idle in transaction (aborted)"),
        ),
        ("postgres: alice shop [local] SELECT waiting", client("SELECT waiting")),
        ("postgres: alice shop [local] CREATE TABLE AS", client("CREATE TABLE AS")),
        ("postgres: alice shop [local] authentication", client("authentication")),
        ("postgres: alice shop [local] ", client(None)),
        (
            "postgres: alice shop 127.0.0.1(52345) SELECT",
            client("SELECT", client_addr="127.0.0.1", client_port=52345),
        ),
        (
            "postgres: alice shop fe80::1%eth0(5) BIND",
            client("BIND", client_addr="fe80::1%eth0", client_port=5),
        ),
        (
            "postgres: alice shop db-client.example.org(1) COPY",
            client("COPY", client_addr="db-client.example.org", client_port=1),
        ),
        ("edb-postgres: alice shop [local] idle", client()),
        # names with spaces, which nothing quotes
        ("postgres: alice a b [local] idle", client(usename=None, datname=None)),
        ("postgres: a b c d [local] idle", client(usename=None, datname=None)),
        # names that look like a host, or like an activity
        (
            "postgres: [local] shop 10.0.0.1(7) idle",
            client(usename="[local]", client_addr="10.0.0.1", client_port=7),
        ),
        ("postgres: alice x(7) [local] SELECT", client("SELECT", datname="x(7)")),
        ("postgres: idle SELECT [local] idle", client(usename="idle", datname="SELECT")),
        # users named like a background process
        ("postgres: checkpointer shop [local] idle", client(usename="checkpointer")),
        ("postgres: startup shop [local] idle", client(usename="startup")),
    ],
)
def test_client_backend(title: str, expected: Title) -> None:
    assert parse(title, "") == expected
    assert parse(title) == expected
    assert parse(title.replace("postgres: ", "postgres: 15/main: "), "15/main") == expected
    assert parse(title.replace("postgres: ", "postgres: 15/main: ")) == expected
    assert parse(title.replace("postgres: ", "postgres: a: b c: "), "a: b c") == expected


@pytest.mark.parametrize(
    ("title", "major", "expected"),
    [
        ("postgres: checkpointer ", 14, Title("checkpointer")),
        ("postgres: background writer ", 14, Title("background writer")),
        ("postgres: walwriter ", 14, Title("walwriter")),
        ("postgres: stats collector ", 14, Title("stats collector")),
        ("postgres: logger ", 15, Title("logger")),
        ("postgres: autovacuum launcher ", 15, Title("autovacuum launcher")),
        ("postgres: autovacuum worker shop", 15, Title("autovacuum worker", datname="shop")),
        ("postgres: autovacuum worker my shop", 15, Title("autovacuum worker", datname="my shop")),
        ("postgres: logical replication launcher ", 15, Title("logical replication launcher")),
        (
            "postgres: startup recovering 000000010000000000000001",
            15,
            Title("startup", activity="recovering 000000010000000000000001"),
        ),
        (
            "postgres: archiver last was 000000010000000000000004",
            16,
            Title("archiver", activity="last was 000000010000000000000004"),
        ),
        (
            "postgres: walreceiver streaming 0/3000148",
            16,
            Title("walreceiver", activity="streaming 0/3000148"),
        ),
        ("postgres: walsummarizer ", 17, Title("walsummarizer")),
        ("postgres: slotsync worker ", 17, Title("slotsync worker")),
        ("postgres: io worker 0", 18, Title("io worker")),
        (
            "postgres: parallel worker for PID 5167 ",
            15,
            Title("parallel worker", leader_pid=5167),
        ),
        (
            "postgres: parallel worker for PID 5167 waiting",
            15,
            Title("parallel worker", leader_pid=5167, activity="waiting"),
        ),
        (
            "postgres: logical replication worker for subscription 16389 ",
            15,
            Title("logical replication worker"),
        ),
        (
            "postgres: logical replication worker for subscription 16389 sync 16400 ",
            15,
            Title("logical replication worker"),
        ),
        (
            "postgres: logical replication apply worker for subscription 16389 ",
            16,
            Title("logical replication worker"),
        ),
        (
            "postgres: logical replication apply worker for subscription 16389 ",
            17,
            Title("logical replication apply worker"),
        ),
        (
            "postgres: logical replication tablesync worker for subscription 16389 sync 16400 ",
            17,
            Title("logical replication tablesync worker"),
        ),
        (
            "postgres: logical replication parallel apply worker for subscription 16389 ",
            18,
            Title("logical replication parallel worker"),
        ),
        (
            "postgres: logical replication sequencesync worker for subscription 16389 ",
            19,
            Title("logical replication sequencesync worker"),
        ),
        (
            'postgres: REPACK decoding worker for relation "lines" ',
            19,
            Title("REPACK decoding worker"),
        ),
        (
            'postgres: REPACK decoding worker for relation "a: io worker [local] b" waiting',
            19,
            Title("REPACK decoding worker", activity="waiting"),
        ),
        (
            'postgres: REPACK decoding worker for relation "a: checkpointer " ',
            19,
            Title("REPACK decoding worker"),
        ),
        (  # cut after 95 characters
            f'postgres: REPACK decoding worker for relation "{"long" * 15} ',
            19,
            Title("REPACK decoding worker"),
        ),
        ("postgres: TimescaleDB Background Worker Launcher ", 17,
         Title("TimescaleDB Background Worker Launcher")),
        (
            "postgres: walsender repl 10.0.0.2(4444) streaming 0/3000148",
            16,
            Title("walsender", "repl", None, "10.0.0.2", 4444, "streaming 0/3000148"),
        ),
        (
            "postgres: walsender repl shop [local] START_REPLICATION",
            15,
            Title("walsender", "repl", "shop", "[local]", None, "START_REPLICATION"),
        ),
        (
            'postgres: walsender repl [local] sending backup "a [local] b"',
            15,
            Title("walsender", "repl", None, "[local]", None, 'sending backup "a [local] b"'),
        ),
        # a child whose title is still the postmaster's command line
        ("/usr/lib/postgresql/15/bin/postgres", 15, Title()),
        ("", 15, Title()),
    ],
)  # fmt: skip
def test_background_process(title: str, major: int, expected: Title) -> None:
    assert parse(title, "", major) == expected
    assert parse(title, None, major) == expected
    named = title.replace("postgres: ", "postgres: 15/main: ")
    assert parse(named, "15/main", major) == expected
    if not title.startswith("postgres: Timescale"):
        assert parse(named, None, major) == expected


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        (["postgres: checkpointer ", "postgres: a: checkpointer "], ""),
        (["postgres: 15/main: background writer "], "15/main"),
        (["postgres: a: b c: walwriter "], "a: b c"),
        (["postgres: autovacuum launcher: walwriter "], "autovacuum launcher"),
        # a user may be named like anything, but has a host behind the name
        (["postgres: evil: checkpointer  db [local] idle", "postgres: 15/main: walwriter "],
         "15/main"),
        (["postgres: alice shop [local] idle", "/usr/bin/postgres"], None),
        ([], None),
    ],
)  # fmt: skip
def test_cluster_name(titles: list[str], expected: str | None) -> None:
    assert cluster_name(titles) == expected


# ASCII is what cluster_name may hold; names may hold anything but NUL.
clusters = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
names = st.text(st.characters(exclude_characters=" \0", exclude_categories=["Cs"]), min_size=1)
hosts = st.one_of(
    st.just("[local]"),
    st.ip_addresses().flatmap(lambda ip: st.integers(1, 65535).map(lambda port: f"{ip}({port})")),
)
activities = st.sampled_from(["", "idle", "idle in transaction", "SELECT", "UPDATE waiting"])


@given(clusters, names, names, hosts, activities)
def test_names_without_spaces_are_certain(
    cluster: str, user: str, database: str, host: str, activity: str
) -> None:
    assume(user != "walsender" and not cluster.startswith(" "))
    prefix = f"{cluster}: " if cluster else ""
    title = parse(f"postgres: {prefix}{user} {database} {host} {activity}", cluster)
    assert title.backend_type == "client backend"
    assert (title.usename, title.datname) == (user, database)
    assert title.activity == (activity or None)


@given(st.text(), st.one_of(st.none(), clusters))
def test_no_title_is_an_error(text: str, cluster: str | None) -> None:
    parse(text, cluster)
    parse(f"postgres: {text}", cluster)
    cluster_name([text, f"postgres: {text}"])


@pytest.mark.parametrize("cluster", [None, ""])
@pytest.mark.parametrize("digits", ["", "1" * 8, "1" * 300, "1" * 5000, "\u0661\u0662"])
def test_a_number_beyond_all_pids_and_ports_is_not_known(digits: str, cluster: str | None) -> None:
    """CPython refuses some thousands of digits, and the kernel a path of some hundreds."""
    assert parse(f"postgres: parallel worker for PID {digits} ", cluster).leader_pid is None
    assert parse(f"postgres: alice shop 10.0.0.1({digits}) idle", cluster).client_port is None
    assert parse(f"postgres: x({digits}) shop [local] idle", cluster).client_addr == "[local]"


def test_the_last_pid_and_port_are_known() -> None:
    assert parse("postgres: parallel worker for PID 4194304 ").leader_pid == 4194304
    assert parse("postgres: parallel worker for PID 4194305 ").leader_pid is None
    assert parse("postgres: alice shop 10.0.0.1(65535) idle").client_port == 65535
    assert parse("postgres: alice shop 10.0.0.1(65536) idle").client_port is None


def test_what_is_longer_than_any_title_is_none() -> None:
    name = "\\xff" * 63  # of 63 bytes that are no UTF-8
    longest = f"postgres: {name}: {name} {name} {'h' * 1025}(65535) idle in transaction (aborted)"
    assert parse(longest).client_port == 65535
    assert parse("postgres: " + "a" * 4096) == Title()
    assert parse("postgres: checkpointer " + "a" * 4096, "") == Title()


# What the grammar is made of, so that its parts meet in every order
words = st.sampled_from(
    (
        b": ", b" ", b"[local] ", b"a(1) ", b"(1)", b"9", b"9" * 400, b"A ", b'"', b'" waiting',
        b"idle ", b"waiting", b"walsender ", b"streaming ", b"sending backup ", b"io worker ",
        b"autovacuum worker ", b"checkpointer", b"parallel worker for PID ",
        b"logical replication ", b"apply ", b"worker", b" for subscription ", b"sync ",
        b'REPACK decoding worker for relation "', b"\xff", b"\xd9\xa1",
    )
)  # fmt: skip
often = st.just(1) | st.integers(1, 400)
raw = st.lists(st.tuples(words | st.binary(max_size=5), often), max_size=12)


@fuzzed
@given(raw, st.one_of(st.none(), clusters))
def test_any_bytes_are_judged_at_once(parts: list[tuple[bytes, int]], cluster: str | None) -> None:
    """As many as are read of a process, which took seconds where hosts follow many colons."""
    said = decode(b"postgres: " + b"".join(part * times for part, times in parts)[: 16 << 10])
    began = time.process_time()
    title = parse(said, cluster)
    cluster_name([said])
    assert time.process_time() - began < 0.5
    assert title.leader_pid is None or title.leader_pid <= 1 << 22
    assert title.client_port is None or title.client_port <= 65535


def test_hosts_behind_many_colons() -> None:
    said = "postgres: " + "io worker : " * 680 + "a(1) " * 1600
    began = time.process_time()
    parse(said)
    assert time.process_time() - began < 0.5
