"""The screens in the pages look as the program's do: the same lines, if not the same numbers.

Above each stands <!-- run: SCENE -->, a function of this file. To draw all of them anew:
PGTRACE_UPDATE_DOCS=1 scripts/test tests/integration/test_screens.py
"""

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from child import Child, Idle
from copied_cluster import CopiedCluster
from fix_cluster import SEQUENTIAL, SETTINGS, Connection, make_cold
from fix_markers import PG_VERSION
from fix_storage import no_experiment_of_others
from lab_runs import usable
from pgtrace.errors import UnsupportedError
from pgtrace.lab.core import benchmark_table, page_cache
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.reporters.view import WIDTH
from pgtrace_command import Pgtrace

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
UPDATE = "PGTRACE_UPDATE_DOCS" in os.environ
ROWS = 1_000_000
"""As the demonstration: more than shared buffers hold, so that a warm scan reads."""
INDEX_SCAN = benchmark_table.index_scan(ROWS)
ATTACHED = "Ctrl-C to stop."
LOCK = 2
"""While somebody holds it, monthly_report() goes on."""

_SCREEN = re.compile(
    r"(<!-- run: (?P<scene>[^\n]+) -->\n\n?```(?:console|json)\n)(?P<text>.*?)(?=^```$)",
    re.MULTILINE | re.DOTALL,
)


class Stage:
    """A server, and pgtrace as a person runs it."""

    def __init__(self, cluster: PrivateCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        with cluster.connect() as helper:
            benchmark_table.create_table(helper, ROWS)
            helper.execute(
                "create or replace function monthly_report() returns void language plpgsql as "
                f"$$ begin while not pg_try_advisory_xact_lock({LOCK}) loop "
                f"perform max(info) from {benchmark_table.TABLE}; end loop; end $$"
            )

    def run(self, *arguments: object, **environment: object) -> str:
        """Run a command to its end; what it printed, errors too."""
        ran = subprocess.run(
            self._command(*arguments),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env=os.environ | {name: str(value) for name, value in environment.items()},
        )
        assert ran.returncode != 1, ran.stdout
        return ran.stdout

    def run_until(self, printed: str, *arguments: object) -> str:
        """What a command printed until it had printed that, and was stopped."""
        words = self._command(*arguments)
        with Child(*words, cwd=self.folder, stderr=subprocess.STDOUT) as running:
            running.wait_for(printed)
            ended = running.stop()
        assert ended.code == 0, ended.out
        return ended.out

    def restart(self) -> None:
        """Empty shared buffers, so that every block has to be read."""
        self.cluster.restart()

    @contextmanager
    def backend(self, user: str = "postgres") -> Iterator[Connection]:
        """A session that has planned the benchmark's queries, and prefers the index."""
        with self.cluster.connect(options=benchmark_table.INDEX_FIRST, user=user) as connection:
            for query in (SEQUENTIAL, INDEX_SCAN, "select 1"):
                connection.execute(f"explain {query}")
            connection.prepare_threshold = None  # the protocol is shown, and stays the same
            yield connection

    def make_cold(self) -> None:
        """Evict the table."""
        with self.cluster.connect() as helper:
            make_cold(self.cluster, helper)

    def watch(self, act: Callable[[], None], *arguments: object, ends_itself: bool = False) -> str:
        """What pgtrace printed while that was done; Ctrl-C ends it unless that did."""
        with Child(*self._command(*arguments), cwd=self.folder, stderr=subprocess.STDOUT) as tracer:
            tracer.wait_for(re.escape(f"{ATTACHED}\n"))
            time.sleep(1.2)  # after its first look, which would cut the first query in two
            act()
            time.sleep(0.5)
            ended = tracer.ended() if ends_itself else tracer.stop()
        assert ended.code == 0, ended.out
        return ended.out

    def _command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "pgtrace", *map(str, arguments)]


def doctor(stage: Stage) -> tuple[str, str]:
    pid = stage.cluster.postmaster_pid
    return f"sudo pgtrace doctor -p {pid}", stage.run("doctor", "-p", pid)


def cost(stage: Stage) -> tuple[str, str]:
    lines = stage.run("doctor", "--measure").splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith("Cost"))
    return "sudo pgtrace doctor --measure | grep -A 3 Cost", "\n".join(lines[at : at + 4]) + "\n"


def servers(stage: Stage) -> tuple[str, str]:
    """Without the servers of others on this host."""
    with (
        stage.cluster.connect(),
        stage.cluster.connect() as idle,
        stage.cluster.connect() as busy,
    ):
        idle.execute("begin")
        time.sleep(0.5)

        def sleep() -> None:
            with suppress(psycopg.errors.QueryCanceled):
                busy.execute("select pg_sleep(600), 'till the report is there'")

        sleeps = threading.Thread(target=sleep)
        sleeps.start()
        time.sleep(1.5)
        try:
            shown = stage.run("list").split("\n\n")
        finally:
            busy.cancel()
            sleeps.join()
    (own,) = [server for server in shown if str(stage.cluster.datadir) in server]
    return "sudo pgtrace list", own.rstrip() + "\n"


def sequential(stage: Stage) -> tuple[str, str]:
    stage.restart()
    with stage.backend() as backend:

        def act() -> None:
            stage.make_cold()
            backend.execute(SEQUENTIAL)

        pid = backend.info.backend_pid
        return f"sudo pgtrace attach {pid}", stage.watch(act, "attach", pid)


def cold_and_warm(stage: Stage) -> tuple[str, str]:
    stage.restart()
    with stage.backend() as backend:

        def act() -> None:
            stage.make_cold()
            backend.execute(INDEX_SCAN)
            backend.execute(INDEX_SCAN)
            backend.close()

        pid = backend.info.backend_pid
        return f"sudo pgtrace attach {pid}", stage.watch(act, "attach", pid, ends_itself=True)


def failing(stage: Stage) -> tuple[str, str]:
    with stage.backend() as backend:

        def act() -> None:
            with suppress(psycopg.Error):
                backend.execute("select 1 / 0")

        act()  # what it reads of the catalogs is read
        pid = backend.info.backend_pid
        return f"sudo pgtrace attach {pid}", stage.watch(act, "attach", pid)


def begun_before(stage: Stage) -> tuple[str, str]:
    with stage.backend() as backend, stage.cluster.connect() as holder:
        holder.execute(f"select pg_advisory_lock({LOCK})")
        query = "select monthly_report()"
        backend.execute(f"explain {query}")
        batch = threading.Thread(target=backend.execute, args=(query,))
        batch.start()
        pid = backend.info.backend_pid

        def act() -> None:
            time.sleep(1)
            holder.close()
            batch.join()

        time.sleep(0.2)
        shown = stage.watch(act, "attach", "--every", 2, pid)
        return f"sudo pgtrace attach --every 2 {pid}", shown


def busy(stage: Stage) -> tuple[str, str]:
    with stage.backend() as backend:

        def act() -> None:
            stop = time.monotonic() + 2.5
            while time.monotonic() < stop:
                backend.execute("select 1")

        pid = backend.info.backend_pid
        return f"sudo pgtrace attach {pid}", stage.watch(act, "attach", pid)


def json_lines(stage: Stage) -> tuple[str, str]:
    """It says nothing once it is attached; so each query is made until one is shown."""
    with stage.backend() as backend:
        pid = backend.info.backend_pid
        stop = threading.Event()

        def act() -> None:
            while not stop.wait(0.2):
                backend.execute("select 1 where current_user = 'nobody'")

        client = threading.Thread(target=act)
        client.start()
        try:
            shown = stage.run("attach", "--json", "--duration", 1, pid)
        finally:
            stop.set()
            client.join()
        # One may have been under way as tracing began
        first = next(line for line in shown.splitlines() if '"begun_before":false' in line)
        return f"sudo pgtrace attach --json {pid} | head -n 1", f"{first}\n"


def take(stage: Stage) -> tuple[str, str]:
    with stage.backend() as backend:

        def act() -> None:
            for _ in range(3):  # it takes longer, and stands first
                stage.make_cold()
                backend.execute(SEQUENTIAL)
            time.sleep(3)  # four seconds have a course
            stage.make_cold()
            for _ in range(3):
                backend.execute(INDEX_SCAN)

        pid = backend.info.backend_pid
        shown = stage.watch(act, "capture", pid, "-o", "slow.json", "--force")
        return f"sudo pgtrace capture {pid} -o slow.json", shown


def whole_server(stage: Stage) -> tuple[str, str]:
    with stage.backend() as first, stage.backend() as second:

        def act() -> None:
            stage.make_cold()
            first.execute(SEQUENTIAL)
            second.execute(INDEX_SCAN)

        server = stage.cluster.datadir
        shown = stage.watch(act, "capture", "--server", server, "-o", "server.json", "--force")
        return f"sudo pgtrace capture --server {server} -o server.json", shown


def top_statements(stage: Stage) -> tuple[str, str]:
    """The last of some screens: by then reads were seen, and the server was asked twice."""
    server = stage.cluster.datadir
    stop = threading.Event()
    with stage.backend() as first, stage.backend() as second:
        files = page_cache.relation_files(server, first, benchmark_table.TABLE)

        def act(backend: Connection, query: str) -> None:
            backend.execute(query)
            while not stop.is_set():
                page_cache.evict(files)
                backend.execute(query)

        clients = [
            threading.Thread(target=act, args=(first, SEQUENTIAL)),
            threading.Thread(target=act, args=(second, INDEX_SCAN)),
        ]
        for client in clients:
            client.start()
        try:
            time.sleep(1)  # what is read of catalogs at first is read
            words = ["top", "--server", server, "--batch", 999, "--tab", "statements"]
            shown = stage.run_until(r"% shared_buffers(?s:.*)\nBlocks found", *words)
        finally:
            stop.set()
            for client in clients:
                client.join()
    command = f"sudo pgtrace top --server {server} --batch 1 --tab statements"
    return command, "\n\n".join(shown.strip().split("\n\n")[-2:]) + "\n"


def by_relation(stage: Stage) -> tuple[str, str]:
    """The end of a report."""
    stage.restart()
    with stage.backend() as backend:

        def act() -> None:
            stage.make_cold()
            backend.execute(INDEX_SCAN)

        pid = backend.info.backend_pid
        shown = stage.watch(act, "capture", pid)
        table = shown[shown.index("     reads       size") : shown.index("\nReads by ")]
        after = len(table.splitlines()) - 1
        return f"sudo pgtrace capture {pid} | grep -A {after} 'reads  *size'", table


def commit(stage: Stage) -> tuple[str, str]:
    """On a server that calls fsync."""
    with durable(stage) as lasting, lasting.connect() as backend:
        query = "insert into t values (1)"

        def act() -> None:
            backend.execute(query)

        for _ in range(3):
            act()
        pid = backend.info.backend_pid
        asked = ("--operations", "read,write,fsync")
        shown = stage.watch(act, "attach", *asked, pid)
        return f"sudo pgtrace attach {' '.join(asked)} {pid}", shown


def waiting(stage: Stage) -> tuple[str, str]:
    """For a lock; what else took a little of the time is a matter of the machine."""
    with stage.backend() as backend, stage.cluster.connect() as holder:
        query = f"select count(*) from {benchmark_table.TABLE} where id < 100"
        backend.execute(f"explain {query}")

        def act() -> None:
            holder.execute("begin")
            holder.execute(f"lock table {benchmark_table.TABLE}")
            batch = threading.Thread(target=backend.execute, args=(query,))
            batch.start()
            time.sleep(0.8)
            holder.execute("commit")
            batch.join()

        backend.execute(query)
        pid = backend.info.backend_pid
        shown = stage.watch(act, "attach", pid)
        cut = re.sub(r"(Lock:relation [^·]*) · .*?(?=\n\n)", r"\1 · …", shown, flags=re.DOTALL)
        return f"sudo pgtrace attach {pid}", cut


def who_holds(stage: Stage) -> tuple[str, str]:
    """What is shown while it waits."""
    with stage.backend() as backend, stage.cluster.connect() as holder:

        def act() -> None:
            holder.execute("set application_name = 'nightly'")
            holder.execute("begin")
            holder.execute(f"lock table {benchmark_table.TABLE}")
            query = f"select count(*) from {benchmark_table.TABLE}"
            batch = threading.Thread(target=backend.execute, args=(query,))
            batch.start()
            time.sleep(3.5)
            holder.execute("commit")
            batch.join()

        pid = backend.info.backend_pid
        shown = stage.watch(act, "attach", "--every", 1, pid)
    looks = re.findall(r"^… .*?(?=^… |^■)", shown, flags=re.MULTILINE | re.DOTALL)
    *_, last = (look for look in looks if "is before it" in look)
    cut = re.sub(r"(Lock:relation [^·\n]*) · .*?(?=\n *It waits)", r"\1", last, flags=re.DOTALL)
    return f"sudo pgtrace attach {pid}", cut


def writes(stage: Stage) -> tuple[str, str]:
    """The end of a report, without what only some runs have."""
    with durable(stage) as lasting, lasting.connect() as backend:

        def act() -> None:
            for i in range(300):
                backend.execute(f"insert into t values ({i})")
            backend.execute("checkpoint")

        asked = ("--by", "kind", "--operations", "write,fsync")
        shown = stage.watch(act, "capture", "--server", lasting.datadir, *asked)
        # Whether its writes are among the ten that took longest is chance
        some = "  (what, of|fsync, relation|(fdatasync|write), wal, client)"
        lines = (line for line in shown.splitlines() if re.search(some, line))
        kept = "".join(f"{line}\n" for line in lines)
        return f"sudo pgtrace capture {' '.join(asked)} | grep -E '{some}'", kept


@contextmanager
def durable(stage: Stage) -> Iterator[PrivateCluster]:
    """A server whose commits last."""
    settings = SETTINGS | {"fsync": True, "synchronous_commit": True}
    directory = stage.cluster.datadir.parent.parent
    with CopiedCluster(settings, version=PG_VERSION, directory=directory) as cluster:
        with cluster.connect() as helper:
            helper.execute("create table t (i int)")
        yield cluster


def one_row(stage: Stage) -> tuple[str, str]:
    """The file itself; which databases were asked for blocks meanwhile is chance."""
    stage.restart()
    with stage.backend() as backend:
        query = f"select id from {benchmark_table.TABLE} where ctid = '(1500,1)'"
        backend.execute(f"explain {query}")

        def act() -> None:
            stage.make_cold()
            backend.execute(query)

        arguments = (
            "capture",
            backend.info.backend_pid,
            "--no-connect",
            "-o",
            "one.json",
            "--force",
        )
        stage.watch(act, *arguments)
        return "", (stage.folder / "one.json").read_text()


def report(stage: Stage) -> tuple[str, str]:
    if not (stage.folder / "slow.json").exists():
        take(stage)
    return "pgtrace report slow.json", stage.run("report", "slow.json")


def busy_server(stage: Stage) -> None:
    """A capture of some seconds: a quiet one, one of cold reads, and others of cached ones."""
    if (stage.folder / "busy.json").exists():
        return
    stage.restart()
    with stage.backend() as first, stage.backend() as second:

        def act() -> None:
            time.sleep(1.5)
            stage.make_cold()
            first.execute(INDEX_SCAN)
            for _ in range(4):
                second.execute(INDEX_SCAN)
                time.sleep(1)

        named = ("-o", "busy.json", "--force")
        stage.watch(act, "capture", "--server", stage.cluster.datadir, *named)


def report_of_server(stage: Stage) -> tuple[str, str]:
    """Few rows: which catalogs a new backend reads is of no interest."""
    busy_server(stage)
    return "pgtrace report --top 2 busy.json", stage.run("report", "--top", 2, "busy.json")


def hlog(stage: Stage) -> tuple[str, str]:
    """Lines cut, as a terminal would."""
    report(stage)
    shown = stage.run("report", "--format", "hlog", "slow.json").splitlines()
    cut = "".join(f"{line[:86]}…\n" if len(line) > 87 else f"{line}\n" for line in shown)
    return "pgtrace report --format hlog slow.json", cut


def csv(stage: Stage) -> tuple[str, str]:
    busy_server(stage)
    shown = stage.run("report", "--format", "csv", "--relations", "busy.json")
    return "pgtrace report --format csv --relations busy.json | head -2", _first(shown, 2)


def openmetrics(stage: Stage) -> tuple[str, str]:
    busy_server(stage)
    shown = stage.run("report", "--format", "openmetrics", "busy.json").splitlines()
    kept = "".join(f"{line}\n" for line in shown if 'bucket{operation="read",source="dev' in line)
    return "pgtrace report --format openmetrics busy.json | grep 'bucket.*read.*device'", kept


def _first(text: str, lines: int) -> str:
    return "".join(text.splitlines(keepends=True)[:lines])


def planner(stage: Stage) -> tuple[str, str]:
    cluster = stage.cluster
    where = {"PGHOST": cluster.socket_dir, "PGPORT": cluster.port, "PGDATABASE": "postgres"}
    with cluster.connect() as chief:
        chief.execute("create role app login")
        chief.execute(f"grant select on {benchmark_table.TABLE} to app")
    with stage.backend(user="app") as backend:

        def act() -> None:
            stop = time.monotonic() + 25
            while time.monotonic() < stop:
                for query in (SEQUENTIAL, INDEX_SCAN):
                    stage.make_cold()
                    backend.execute(query)

        options = (backend.info.backend_pid, "--force")
        stage.watch(act, "capture", *options, "-o", "costs.json")
    shown = stage.run("report", "--planner", "--dsn", "user=app", "costs.json", **where)
    with cluster.connect() as chief:
        chief.execute("drop owned by app; drop role app")
    return "pgtrace report --planner --dsn user=app costs.json", shown


def no_such_process(stage: Stage) -> tuple[str, str]:
    return "sudo pgtrace attach 4194000", stage.run("attach", 4194000)


def not_postgresql(stage: Stage) -> tuple[str, str]:
    with Idle() as idle:
        return f"sudo pgtrace attach {idle.pid}", stage.run("attach", idle.pid)


@contextmanager
def storage(stage: Stage) -> Iterator[tuple[Path, Callable[[str], str]]]:
    """A directory on the disk for an experiment, and what shows it as one of a reader's."""
    place = usable(stage.cluster.base.parent)
    yield place, lambda shown: shown.replace(str(place), "/mnt/ssd")
    shutil.rmtree(place)


def lab_pages(stage: Stage) -> tuple[str, str]:
    with storage(stage) as (place, as_shown):
        sizes = "--rows", 20_000, "--runs", 2, "-o", "pages.json", "--force"
        shown = stage.run("lab", "pages", "--storage", f"ssd={place}", "--memory", *sizes)
        command = "sudo pgtrace lab pages --storage ssd=/mnt/ssd --memory --rows 20000 --runs 2"
        return f"{command} -o pages.json", as_shown(shown)


def lab_in_use(stage: Stage) -> tuple[str, str]:
    with storage(stage) as (place, as_shown):
        (place / "backups").mkdir()
        shown = stage.run("lab", "pages", "--storage", f"ssd={place}")
        return "sudo pgtrace lab pages --storage ssd=/mnt/ssd", as_shown(shown)


def lab_restore(stage: Stage) -> tuple[str, str]:
    with storage(stage) as (place, as_shown), no_experiment_of_others():
        named = "--storage", f"ssd={place}", "--rows", 20_000
        with Pgtrace("lab", "pages", "-v", *named) as started:
            started.wait_for("1 of")
            started.send(signal.SIGKILL)
            started.ended()
        lines = stage.run("lab", "restore").splitlines(keepends=True)
        shown = "".join(line for line in lines if str(place) in line)
        return "sudo pgtrace lab restore", as_shown(shown)


SCENES = {
    "lab pages": lab_pages,
    "lab, a directory in use": lab_in_use,
    "lab restore": lab_restore,
    "doctor": doctor,
    "doctor --measure": cost,
    "list": servers,
    "attach, a cold sequential scan": sequential,
    "attach, an index scan, cold and warm": cold_and_warm,
    "attach, a query that fails": failing,
    "attach, a query that began before": begun_before,
    "attach, a commit": commit,
    "attach, a lock": waiting,
    "attach, who holds a lock": who_holds,
    "attach, many short queries": busy,
    "attach --json": json_lines,
    "capture": take,
    "capture, a whole server": whole_server,
    "top statements": top_statements,
    "capture, by relation": by_relation,
    "capture, writes and fsync": writes,
    "capture, one row": one_row,
    "report": report,
    "report, a whole server": report_of_server,
    "report --format hlog": hlog,
    "report --format csv": csv,
    "report --format openmetrics": openmetrics,
    "report --planner": planner,
    "no such process": no_such_process,
    "not PostgreSQL": not_postgresql,
}

_AMOUNT = r"\b[\d,.]+ (?:ns|µs|ms|s|B|KiB|MiB|GiB)\b"
_FIGURE = rf"(?:{_AMOUNT}|[\d,.]+)"
_CELL = r"(?:[<>]?[\d,.]+|\?)(?: (?:%|ns|µs|ms|s|B|KiB|MiB|GiB))?"
_KIND = r"(?:heap|index|visibility map|free space map) N in AMOUNT"
"""They go by time: of a small one and another, which is first is chance."""
_OF_KIND = r"[a-z][a-z ]* [\d,]+ in "
_MASKS = [
    # Rows of tables: which figures of a small thing are 0, and whether there is such, is chance
    (rf"^ *(?:{_CELL} +){{3,}}(?:other waits|\(\d+ more\))$", ""),
    (rf"^ *(?:{_CELL} +){{3,}}(?=[^\d\s%])", "ROW "),
    (r"^(ROW .{20}).*…$", r"\1"),
    # Index or map: which took longer is chance
    (r"^ROW public\.(?:idx_tbl_cost_|tbl_cost_alig)$", "ROW SMALL"),
    # Nor which took longest in all: of a warm scan it is whoever had to leave the CPU in a read
    (r"\bLongest in public\.\S+ \((?:heap|index)\):", "Longest in RELATION:"),
    (r'le="[^"]+"', "LE"),
    (r"\b\d(?:\.\d+)?e-\d+\b", "0.1"),
    (r"[·▁▂▃▄▅▆▇█▓▒░▚▞▘▖▗▝]+", " "),
    (r"^Tag=\d+\.read\.\w+\.\w+,[\d.,]+,HISTF.*", "TAG"),
    (r"Reads by \w+ \([^)]*\)", "Reads by PROBE_TYPE"),
    (r"Reads by \w+,", "Reads by PROBE_TYPE,"),
    (r"/[\w/.-]*(?:/data|/main)\b", "DIRECTORY"),
    (r"kernel [\w.-]+", "kernel VERSION"),
    (r'"kernel": "[^"]+"', "KERNEL"),
    (r"\d{4}-\d\d-\d\d.\d\d:\d\d:\d\d(\.\d+Z)?", "WHEN"),
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r": \w+ on \w+(, rotational)?(, read-ahead \d+ KiB)?, in ", ": DEVICE, in "),
    (r'"(filesystem|device|rotational|read_ahead_kb)": [^{,]*', r'"\1": OF THIS HOST'),
    # Which figures there are depends on the noise, and which sources on luck
    (r"^Under way when tracing stopped: .*", ""),
    (r"  not measured: [a-z, ]*needs .*", " FIGURE"),
    (rf"{_FIGURE} +{_FIGURE} to {_FIGURE}", "FIGURE"),
    (r"^    (?:page cache|read-ahead issued|device|wait|unknown) .* FIGURE", "SOURCE"),
    (r"^  Not counted above, because .*", "SOURCE"),
    (r"^ +[\d.]+ % +[\d,]+  \S.*", "DATABASE"),
    (r"no more that could be told: at most .*|\d+ ns more \(.*\)", "COST"),
    (r"^  (?:[\d.]+, )*[\d.]+ +[A-Z].*|^ {18}\S.*", "PLAN"),
    (_AMOUNT, "AMOUNT"),
    (r"\b[\d,]+(?:\.\d+)?", "N"),
    (r"\[(?:\[N(?:,N)*\],?)*\]", "[BUCKETS]"),
    (r", other waits AMOUNT", ""),
    (r", never waiting for the device", ", waiting for the device AMOUNT (N %)"),
    (r"\b(read|query|call|error)\b", r"\1s"),
    (r"\bquerys\b", "queries"),
    (r"\bCPUs?\b", "CPUs"),
    # How many abilities and processes of a kind there are, and in what state
    (r"^  (?:ok|no|- ) ( [^:]+): .*", r"ABILITY\1"),
    (r"^ *→ .*", ""),
    (r"^ *N  (?: ?[a-z]+)+(?: .*)?$", "PROCESS"),
    # Whether the map is in shared buffers depends on what was shown before
    (r"^ *relation N in AMOUNT +visibility map N in AMOUNT$", ""),
    (r"^ *N .*  visibility map$", ""),
    (r"\s+", " "),
]


_TABLE = re.compile(r"\S  |[{}\"]|^[$#■]")
_WHOLE = [
    # A look at a query that runs
    (r"^… [\d.,]+ \S+ +(?:[\d,]+|no) reads?\b.*\n(?: +.*\n)*", ""),
    # Into which parts the time is divided is a matter of the machine, unless it was for a lock
    (r"^  [█▓▒░▚▞▘▖▗▝]{60,}\n  (?!Lock:)\S.*\n(?:  (?!It waits)\S.*\n)*", "  Where it went\n"),
    (r"^Of .* in statements (?:.*\n)*?.*\.\n", "Of statements\n"),
    (r"^( *time +share +times .*\n)(?:.+\n)+", r"\1"),
    (r'^( *)"times": \[(?:\]|(?s:.*?)^\1\])', r'\1"times": []'),
    (r'"times":\[\{.*?\}\](?=,"query_id")', '"times":[]'),
]


_FOLDED = [
    # The times of a block, below its sentence, if its first line has no room for them
    (r"^(\S[^\n]*?) {2,}(mean [^\n]*)\n((?:  (?!from )\S[^\n]*\n)*)", r"\1\n\3            \2\n"),
    (r"\n {12}(?=from device )", "   "),
    (rf"(\n {{12}}{_OF_KIND}[^\n]*)\n {{12}}(?={_OF_KIND})", r"\1   "),
    (r"(\n  [\d,]+ calls? [^\n]*)\n  (?=(?:latency|p\d+|max|query_id) )", r"\1   "),
    # The name of a row
    (r"\n {40,}(?=\S)", "  "),
]


def unfolded(text: str) -> str:
    """As it is where every line has room: how many digits there are is chance."""
    for pattern, replacement in _FOLDED:
        before = ""
        while before != text:
            before, text = text, re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def unwrapped(text: str) -> list[str]:
    """Its lines, each sentence in one: where they were broken is a matter of their figures."""
    lines: list[str] = []
    for line in text.splitlines():
        last = lines[-1] if lines else ""
        length = len(last.rpartition("\n")[2])
        # The sentence of a block is indented, each line of it
        body = line[2:] if re.match(r"  \w", line) and re.match(r"  \w", last) else line
        word = re.split(r" (?!(?:%|ns|µs|ms|s|B|[KMG]iB)\b)", body, maxsplit=1)[0]
        if word and not _TABLE.search(last.strip() + body) and length + 1 + len(word) > WIDTH:
            lines[-1] = f"{last}\n{line}"
        else:
            lines.append(line)
    whole = "\n".join(re.sub(r"\n *", " ", line) for line in lines)
    return re.sub(r"(?<=[a-z)][.;]) (?=[A-Z])", "\n", whole).splitlines()


def shape(text: str) -> list[str]:
    """The lines that differ in more than numbers, each once. Looks at a running query are left
    out, because when they come depends on the host's load; and of a table's rows, the order,
    as most go by time.
    """
    for pattern, replacement in _WHOLE:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    text = unfolded(text)
    masked: dict[str, None] = {}
    rows: set[str] = set()
    for line in [*unwrapped(text), ""]:
        words = line
        for pattern, replacement in _MASKS:
            words = re.sub(pattern, replacement, words)
        if re.fullmatch(rf"\s*(?:{_KIND}\s*)+", words):
            words = " ".join(sorted(re.findall(_KIND, words)))
        if words.startswith("ROW "):
            rows.add(words.strip())
        else:
            masked |= dict.fromkeys(sorted(rows))
            masked[words.strip()] = None
            rows.clear()
    return [line for line in masked if line]


def screens(page: Path) -> list[tuple[str, str]]:
    """A page's screens: scene and text. Those of problems are test_problems.py's."""
    found = [(match["scene"], match["text"]) for match in _SCREEN.finditer(page.read_text())]
    return [each for each in found if not each[0].startswith("problem ")]


PLACES = [
    pytest.param(
        page,
        scene,
        shown,
        id=f"{page.relative_to(ROOT)}: {scene}",
        # Experiments measure time
        marks=[pytest.mark.alone] if scene.startswith("lab") else [],
    )
    for page in PAGES
    for scene, shown in screens(page)
]


@pytest.fixture(scope="module")
def stage(disk_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    try:
        cluster = CopiedCluster(SETTINGS, version=PG_VERSION, directory=disk_directory)
    except UnsupportedError as error:
        pytest.skip(str(error))
    with cluster:
        yield Stage(cluster, tmp_path_factory.mktemp("docs"))


def draw(stage: Stage, scene: str) -> str:
    """What a page shows: without what is of the test machine alone."""
    command, output = SCENES[scene](stage)
    text = f"$ {command}\n{output}" if command else output
    # What a message tells to type begins as whoever reads the page has typed it
    text = text.replace(f"sudo {sys.executable} -m pgtrace", "sudo pgtrace")
    if UPDATE:
        text = text.replace(str(stage.cluster.datadir), "/var/lib/postgresql/15/main")
        release = platform.release()
        text = text.replace(release, release.partition("-")[0])
        text = text.replace(str(stage.folder), "")
    return text


@pytest.mark.pg("15")
@pytest.mark.parametrize(("page", "scene", "shown"), PLACES)
def test_a_screen_looks_as_the_page_shows_it(
    stage: Stage, page: Path, scene: str, shown: str
) -> None:
    real = draw(stage, scene)
    if UPDATE:
        page.write_text(
            _SCREEN.sub(
                lambda match: match[1] + (real if match["scene"] == scene else match["text"]),
                page.read_text(),
            )
        )
    else:
        assert shape(real) == shape(shown), f"PGTRACE_UPDATE_DOCS=1 draws it anew:\n{real}"


def test_a_shape_is_the_same_however_lines_are_folded() -> None:
    """One block with few digits, and with many."""
    few = (
        "■ 1.0 ms    3 reads  24.0 KiB  mean 3.2 µs  p50 2 µs  p99 5 µs  max 3 ms\n"
        "  Reading took 9 µs of 1.0 ms (1 %), waiting for the device 1 µs (0 %).\n"
        "            page cache 2   device 1   wait 0   from device 8.0 KiB\n"
        "            heap 2 in 9.35 µs   index 1 in 3.31 µs\n"
        "  from        reads                                                       time\n"
        "\n"
        "     8,105   63.3 MiB  51.0 µs   413 ms    97 %    90 %  public.t (heap)\n"
    )
    many = (
        "■ 1,000 ms  3,000 reads   24.1 KiB\n"
        "  Reading took 900 µs of 1.0 ms (1 %), waiting for the device 100 µs (0 %).\n"
        "            mean 3.25 µs   p50 2.1 µs   p99 5.8 µs   max 3.7 ms\n"
        "            page cache 2,000   device 1,000   wait 0\n"
        "            from device 8.0 KiB\n"
        "            heap 2,000 in 9.35 µs\n"
        "            index 1,000 in 3.31 µs\n"
        "  from        reads                                                       time\n"
        "\n"
        "     8,105   63.3 MiB  51.0 µs   413 ms    97 %    90 %  public.t\n"
        "                                                         (heap)\n"
    )
    assert shape(few) == shape(many)
    assert shape(few) != shape(many.replace("device 1,000", "disk 1,000"))


def test_a_shape_has_words_and_no_numbers() -> None:
    chart = "  from        reads                                                       time\n"
    rows = "   1.0 µs   9  ███  0 %\n   2.0 µs   1   60 %\n"
    one = f"■ 299 ms    4,138 reads   mean 67.3 µs\n{chart}{rows}"
    other = f"■ 1.2 s    1 read   mean 2 ns\n{chart}  16.4 µs   348  █████       0 %\n"
    assert shape(one) == shape(other) == [
        "■ AMOUNT N reads", "mean AMOUNT", "from reads time", "AMOUNT N N %"
    ]  # fmt: skip
    assert shape(one) != shape(one.replace("mean", "median"))
    looked = f"… 5.0 s    9 reads   mean 2 ns\n  Reading took 18 ns.\n  1.0 µs   9\n{one}"
    assert shape(looked) == shape(one)


def test_a_shape_has_sentences_and_no_order_of_rows() -> None:
    """Where a line is broken, and which row comes first, is a matter of the figures."""
    waits = f"It {'waits and ' * 7}read for"
    one = f"{waits} 1.5 s (7 % of it).\n  1 µs   9   7 B  walN\n  2 s   1   0  bee\n"
    other = f"{waits}\n1,500.5 ms (7 % of it).\n  2 µs   9   7 B  bee\n  1 s   1   0  walN\n"
    assert shape(one) == shape(other)
    assert shape(one) != shape(other.replace("bee", "ant"))
