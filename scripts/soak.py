"""Trace a whole server under clients that come and go, and hold its figures against the server's.

50 clients, half of them reconnecting, in two databases, while tables are made and dropped and
autovacuum works. In the middle pgtrace stands still for 10 seconds. At the end: reads against
pg_statio_user_tables and pg_stat_io (by backend type, PostgreSQL 16 and later), calls against
pg_stat_statements. It fails on a difference of more than 0.1 %, on a loss that is not said, and,
from 20 minutes on, on memory that grows: until then the collector fills what it keeps (2,000
backends that ended, and each file).
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import pgtrace
from pgtrace.lab.core.private_cluster import PrivateCluster

HERE = Path(__file__).parent
DATABASES = ("shop", "books")
TABLES = 8
ROWS = 60_000
CLIENTS = 25
"""Of each kind: those that stay and those that reconnect."""
RECONNECTS_S = 200
"""At most; a busy machine makes fewer."""
STOPPED_S = 10
SAMPLE_S = 5
TOLERANCE = 0.001
MAY_GROW = 1.15
"""Memory of the last quarter against that of the second, and some MiB of an allocator's."""
GROWTH_MIB = 8
JUDGED_S = 20 * 60
"""Memory of a shorter run is told, and not judged."""
CURVE, BAR = 24, 40
"""Lines of the curve, and how long its bars are."""
RELATIONS = ("relation", "heap", "index", "toast", "visibility map", "free space map")

SETTINGS: dict[str, object] = {
    "shared_buffers": "16MB",
    "max_connections": 120,
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.max": 10_000,
    "track_io_timing": True,
    "autovacuum_naptime": "2s",
    "autovacuum_vacuum_threshold": 500,
    "autovacuum_analyze_threshold": 500,
    "checkpoint_timeout": "30s",
    "max_wal_size": "256MB",
    "jit": False,
}

LOOK = """
\\set t random(1, {tables})
\\set id random(1, {rows})
select count(*), max(length(filler)) from item_:t where id between :id and :id + 40;
select filler from item_:t where id = :id;
update changed set filler = repeat('u', 100) where id = :id;
"""
SCAN = """
\\set t random(1, {tables})
\\set id random(1, {rows})
select id, length(filler) from item_:t where id between :id and :id + 5;
"""


# Before 16 what extends a relation counts as read, so that only tables that stay as they are agree.
STATIO = """
select t.relname, t.heap_blks_read + coalesce(t.toast_blks_read, 0) from pg_statio_user_tables t
    where t.relname like 'item\\_%'
union all
select i.indexrelname, i.idx_blks_read from pg_statio_user_indexes i
    where i.relname like 'item\\_%'
"""


Figures = dict[str, Counter[str]]
"""The server's, by what and whose."""
ENOUGH = 1000
"""Of fewer a tenth of a percent is no whole one."""


class Sample(NamedTuple):
    """What pgtrace took so far: seconds since it began, MiB resident, seconds of CPU."""

    at_s: float
    rss_mib: float
    cpu_s: float


class Check(NamedTuple):
    """One figure of pgtrace's beside the server's own."""

    what: str
    server: int
    pgtrace: int
    lost: int

    @property
    def off(self) -> float:
        """What is missing, or too much, as a share of the server's figure."""
        missing = self.server - self.pgtrace
        if missing > 0:
            missing = max(0, missing - self.lost)
        return abs(missing) / max(self.server, 1)

    @property
    def good(self) -> bool:
        """The two agree, but for what pgtrace says that it lost."""
        return self.off <= TOLERANCE


def main() -> int:
    """Run it; 1 if anything was not as it has to be."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20, help="of load (20)")
    parser.add_argument("--pg", type=int, default=15, metavar="VERSION", help="PostgreSQL's (15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all of it there")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the capture there")
    args = parser.parse_args()
    bindir = Path(subprocess.check_output([HERE / "pg", str(args.pg)], text=True).strip())
    with tempfile.TemporaryDirectory(prefix="pgtrace-soak-") as kept:
        with PrivateCluster(SETTINGS, bindir=bindir) as cluster:
            prepare(cluster)
            found = soak(cluster, Path(kept), args.minutes * 60)
        if args.keep:
            shutil.copy(Path(kept, "soak.json"), args.keep)
    found["postgresql"] = args.pg
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if found["good"] else 1


def prepare(cluster: PrivateCluster) -> None:
    """Make the databases and their tables."""
    for name in DATABASES:
        with cluster.connect() as connection:
            connection.execute(f"create database {name}")
        with cluster.connect(dbname=name) as connection:
            connection.execute("create extension pg_stat_statements")
            for table in range(1, TABLES + 1):
                connection.execute(
                    f"create table item_{table} as select id, repeat('x', 100) as filler"
                    f" from generate_series(1, {ROWS}) id"
                )
                connection.execute(f"create index on item_{table} (id)")
            connection.execute("create table changed (like item_1) with (fillfactor = 50)")
            connection.execute("insert into changed select * from item_1")
            connection.execute("create index on changed (id)")
            connection.execute("vacuum analyze")
    cluster.restart()


def soak(cluster: PrivateCluster, kept: Path, seconds: float) -> dict[str, Any]:
    """Trace the load for that long; everything that was found."""
    file, said = kept / "soak.json", kept / "said"
    command = [sys.executable, "-m", "pgtrace", "capture", str(cluster.postmaster_pid)]
    command += ["--by", "relation", "--dsn", cluster.dsn(), "-o", str(file), "--force"]
    # While it stands still, those who come keep the places of those who ended
    command += ["--operations", "read,write,fsync", "--max-backends", "4096"]
    command += ["--queries", "full"]  # and the calls
    command += ["--own-queries"]  # the server counts their reads too
    # What both of them ask at first is in shared buffers then: between the begin of tracing and the
    # first look at the server's figures nobody reads
    subprocess.run([*command, "-q", "--duration", "1"], check=True)
    server_figures(cluster)
    with said.open("wb") as errors:
        tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors)
    samples: list[Sample] = []
    try:
        while "Ctrl-C to stop" not in said.read_text():
            if tracer.poll() is not None:
                raise SystemExit(said.read_text())
            time.sleep(0.1)
        before = server_figures(cluster)
        with load(cluster):
            samples = watch(tracer, seconds)
        settle(cluster)
        after = server_figures(cluster)
    finally:
        tracer.terminate()
        code = tracer.wait(120)
    if code:
        raise SystemExit(f"pgtrace ended with {code}:\n{said.read_text()[-2000:]}")
    capture, size = pgtrace.load(file), file.stat().st_size
    found = judged(capture, held(capture, before, after), samples, said.read_text())
    found["file_bytes"] = size
    print("\n".join(lines(found)))
    return found


@contextmanager
def load(cluster: PrivateCluster) -> Iterator[None]:
    """Everything that the server is asked to do, until the block is left."""
    over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="pgtrace-soak-") as scripts:
        Path(scripts).chmod(0o755)
        look, scan = Path(scripts, "look.sql"), Path(scripts, "scan.sql")
        look.write_text(LOOK.format(tables=TABLES, rows=ROWS))
        scan.write_text(SCAN.format(tables=TABLES, rows=ROWS))
        running = []
        for name in DATABASES:
            half = str(CLIENTS // 2 + (name == DATABASES[0]) * (CLIENTS % 2))
            dsn = ("-n", "-j", "1", "-T", "1000000", cluster.dsn(dbname=name))
            rate = str(RECONNECTS_S // 2)
            running += [
                pgbench("-c", half, "-R", "150", "-M", "prepared", "-f", str(look), *dsn),
                pgbench("-c", half, "-C", "-R", rate, "-f", str(scan), *dsn),
            ]
        thread = threading.Thread(target=make_and_drop, args=(cluster, over))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            for each in running:
                each.terminate()
            for each in running:
                each.wait(60)


def pgbench(*arguments: str) -> subprocess.Popen[bytes]:
    """Start one: this machine's own, as other roots do not have our scripts."""
    here = next(Path("/usr/lib/postgresql").glob("*/bin/pgbench"))
    return subprocess.Popen(
        [str(here), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def make_and_drop(cluster: PrivateCluster, over: threading.Event) -> None:
    """Tables come and go in the second database."""
    number = 0
    with cluster.connect(dbname=DATABASES[1]) as connection:
        while not over.wait(0.5):
            number = (number + 1) % 40
            connection.execute(f"drop table if exists made_{number}")
            connection.execute(f"create table made_{number} as select * from item_1 limit 5000")
            connection.execute(f"create index on made_{number} (id)")
            connection.execute(f"select sum(length(filler)) from made_{number}")
            connection.execute(f"alter table made_{number} add column more int default 1")


def watch(tracer: subprocess.Popen[bytes], seconds: float) -> list[Sample]:
    """Look at pgtrace while the load runs; stop it for a while in the middle."""
    begin, samples, stopped = time.monotonic(), [], False
    while (passed := time.monotonic() - begin) < seconds:
        if tracer.poll() is not None:
            break
        samples.append(Sample(round(passed, 1), *used(tracer.pid)))
        if not stopped and passed > seconds / 2:
            stopped = True
            tracer.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_S)
            tracer.send_signal(signal.SIGCONT)
        time.sleep(min(SAMPLE_S, seconds / 20))
    return samples


def used(pid: int) -> tuple[float, float]:
    """MiB resident, and seconds of CPU."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return int(resident.split()[1]) / 1024, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def settle(cluster: PrivateCluster) -> None:
    """Until nobody of the load is there, and the server's statistics stand still."""
    last: Any = None
    with cluster.connect() as connection:
        for _ in range(60):
            time.sleep(2)
            busy = connection.execute(
                "select count(*) from pg_stat_activity where pid <> pg_backend_pid()"
                " and (datname = any(%s) and application_name <> 'pgtrace'"
                " or backend_type = 'autovacuum worker')",
                [list(DATABASES)],
            ).fetchone()
            now = connection.execute("select sum(blks_read) from pg_stat_database").fetchone()
            if busy == (0,) and now == last:
                return
            last = now
    raise SystemExit("the server did not come to rest")


def server_figures(cluster: PrivateCluster) -> Figures:
    """Blocks read and calls, as the server counts them."""
    found: Figures = {"tables": Counter(), "blocks": Counter(), "calls": Counter()}
    for name in DATABASES:
        with cluster.connect(dbname=name) as connection:
            for table, count in connection.execute(STATIO):
                found["tables"][f"{name}.public.{table}"] = count
    with cluster.connect(dbname=DATABASES[0]) as connection:
        version = connection.info.server_version // 10_000
        for text, count in connection.execute(
            "select s.query, sum(s.calls)::bigint from pg_stat_statements s"
            " join pg_database d on d.oid = s.dbid where d.datname = any(%s)"
            " and s.query like any(array['select %%item_%%', 'update changed%%']) group by 1",
            [list(DATABASES)],
        ):
            found["calls"][normal(text)] += count
        if version >= 16:
            size = "read_bytes" if version >= 18 else "reads * op_bytes"
            asked = (
                f"select backend_type, sum({size})::bigint / 8192 from pg_stat_io"
                " where object = 'relation' and reads > 0 group by 1"
            )
            # What this connection read itself, also to ask, is in the figures once it is flushed
            connection.execute(asked)
            connection.execute("select pg_stat_force_next_flush()")
            found["blocks"].update(dict(connection.execute(asked).fetchall()))
    return found


def normal(text: str | None) -> str:
    """A text without what differs between its two readers: how parameters are numbered."""
    words = (text or "").split()
    return " ".join("$" if word.startswith("$") else word for word in words)


def held(capture: Any, before: Figures, after: Figures) -> list[Check]:
    """Every figure that both have."""
    tables: Counter[str] = Counter()
    blocks: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for backend in capture.backends:
        for reads in backend.io:
            if reads.operation == "read" and reads.kind in RELATIONS:
                blocks[backend.backend_type or "?"] += reads.blocks
                tables[reads.relation or "?"] += reads.blocks
        for query in backend.queries:
            calls[normal(query.text)] += query.calls
    lost = capture.lost
    grown = {key: Counter(figures) for key, figures in after.items()}
    for key, figures in grown.items():
        figures.subtract(before[key])
    stay = grown["tables"]
    mine = sum(tables[name] for name in stay)
    checks = [Check("blocks of tables that stay (pg_statio)", stay.total(), mine, lost.read)]
    for kind, count in sorted(grown["blocks"].items()):
        if count > ENOUGH:
            checks.append(Check(f"blocks, {kind} (pg_stat_io)", count, blocks[kind], lost.read))
    for text, count in grown["calls"].items():
        if count > ENOUGH:
            checks.append(Check(f"calls, {text[:50]}", count, calls[text], lost.queries))
    return checks


def judged(capture: Any, checks: list[Check], samples: list[Sample], said: str) -> dict[str, Any]:
    """All that was found, and whether it is as it has to be."""
    middle, end = quarters(samples)
    long = bool(samples) and samples[-1].at_s > JUDGED_S * 0.95
    grows = long and end > middle * MAY_GROW and end > middle + GROWTH_MIB
    silent = [
        name
        for name in ("read", "write", "fsync", "queries", "backends")
        if getattr(capture.lost, name) and "lost" not in said.lower()
    ]
    return {
        "good": all(check.good for check in checks) and not grows and not silent,
        "checks": [check._asdict() | {"off": check.off} for check in checks],
        "lost": msgspec.structs.asdict(capture.lost)
        | {"in_flight": sum(capture.lost.in_flight.values())},
        "silent": silent,
        "grows": grows,
        "backends": len(capture.backends),
        "samples": [sample._asdict() for sample in samples],
    }


def lines(found: dict[str, Any]) -> list[str]:
    """What is printed of it."""
    told = []
    for one in found["checks"]:
        mark = "   " if one["off"] <= TOLERANCE else "!! "
        told.append(f"{mark}{one['what']:<54} server {one['server']:>9,}"
                    f"  pgtrace {one['pgtrace']:>9,}  off {one['off']:.4%}")  # fmt: skip
    lost = [f"{count:,} {name}" for name, count in found["lost"].items() if count]
    told.append(f"Lost: {', '.join(lost) or 'nothing'}")
    if found["silent"]:
        told.append(f"!! Lost without a word while it ran: {', '.join(found['silent'])}")
    samples = [Sample(**each) for each in found["samples"]]
    middle, end = quarters(samples)
    grows = ": it grows" if found["grows"] else ""
    told.append(f"Memory: {middle:.1f} MiB in the second quarter, {end:.1f} in the last{grows}; "
                f"file {found['file_bytes'] / 2**20:.1f} MiB")  # fmt: skip
    if samples:
        busy = samples[-1].cpu_s / max(samples[-1].at_s, 1)
        told.append(f"CPU: {busy:.1%} of a core; {found['backends']:,} backends in the file")
    return [*told, "", *curve(samples)]


def curve(samples: list[Sample]) -> list[str]:
    """Memory, and CPU since the line before, over time."""
    if len(samples) < 2:
        return []
    most = max(sample.rss_mib for sample in samples)
    step = max(1, len(samples) // CURVE)
    shown = samples[::step]
    told = [f"{'s':>6} {'MiB':>6}  {'CPU':>6}"]
    for before, now in zip([Sample(0, 0, 0), *shown], shown, strict=False):
        busy = (now.cpu_s - before.cpu_s) / (now.at_s - before.at_s) if now.at_s else 0
        bar = "█" * round(BAR * now.rss_mib / most)
        told.append(f"{now.at_s:>6.0f} {now.rss_mib:>6.1f}  {busy:>6.1%}  {bar}")
    return told


def quarters(samples: list[Sample]) -> tuple[float, float]:
    """Median MiB of the second quarter and of the last."""
    n = len(samples) // 4
    if not n:
        return 0.0, 0.0
    return (
        statistics.median(s.rss_mib for s in samples[n : 2 * n]),
        statistics.median(s.rss_mib for s in samples[3 * n :]),
    )


if __name__ == "__main__":
    sys.exit(main())
