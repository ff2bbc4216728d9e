"""The demonstration, once everything is installed: `scripts/demo` calls it with the rows."""

import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

from pgtrace.errors import PgtraceError
from pgtrace.lab.core import benchmark_table
from pgtrace.lab.core.page_cache import evict, relation_files, residency
from pgtrace.lab.core.private_cluster import PrivateCluster

SETTINGS = {
    "shared_buffers": "16MB",  # so that a warm query still reads, from the page cache
    "max_parallel_workers_per_gather": 0,
    "jit": False,
    "autovacuum": False,
    "track_io_timing": True,
    "fsync": False,
    "max_wal_size": "4GB",
}
# The sequential scan has no other plan, so that one session serves both queries.
INDEX_FIRST = "-c enable_seqscan=off -c enable_bitmapscan=off"
DISK = Path("/var/tmp")  # unlike /tmp never in memory, where nothing is cold
PGTRACE = Path(sys.executable).with_name("pgtrace")
STORAGE = Path(__file__).with_name("storage")
COMPARED = {"rows": 100_000, "runs": 3}
"""Of the experiment: small, as each of a disk's random reads takes 4 ms."""
BETWEEN_S = 1.5
"""For the tracer to print its block before the next line of ours."""


def say(text: str) -> None:
    """One line on what happens now."""
    print(f"● {text}", flush=True)


def cached(files: list[Path]) -> str:
    """How much of the files is in the page cache."""
    pages = [residency(file) for file in files]
    held, whole = (sum(p[i] for p in pages) * PAGESIZE / 2**20 for i in (0, 1))
    return f"{held:.1f} of its {whole:.1f} MiB are in the page cache"


def has_probes(pid: int) -> bool:
    """Has this process attached anything yet?"""
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            if str(descriptor.readlink()) in ("anon_inode:bpf_link", "anon_inode:[perf_event]"):
                return True
        except OSError:
            continue  # closed meanwhile
    return False


def attach(pid: int) -> "subprocess.Popen[bytes]":
    """Start `pgtrace attach`, and wait until its probes are there."""
    tracer = subprocess.Popen([PGTRACE, "attach", str(pid)])
    while tracer.poll() is None and not has_probes(tracer.pid):
        time.sleep(0.1)
    time.sleep(BETWEEN_S)
    if tracer.poll() is not None:
        raise SystemExit(f"demo: pgtrace attach ended with {tracer.returncode}, see above")
    return tracer


def end(tracer: "subprocess.Popen[bytes]") -> None:
    """Wait until it has ended with its backend; it must not outlive us."""
    try:
        tracer.wait(timeout=30)
    finally:
        tracer.kill()


def show(backend: Any, query: str, cold: list[Path], files: list[Path]) -> None:
    """Run the query on the watched backend; cold files are evicted before."""
    evict(cold)
    say(f"{'Cold, its files evicted' if cold else 'Warm, the same again'}: {cached(files)}")
    plan = backend.execute(f"explain (analyze, buffers) {query}").fetchall()
    time.sleep(BETWEEN_S)
    said = [line.partition("Buffers: ")[2] for (line,) in plan if "Buffers: " in line]
    say(f"PostgreSQL itself says: {', planning: '.join(said)}\n")  # planning comes second


def demonstrate(rows: int) -> None:
    """Load, attach, run both queries cold and warm."""
    say(f"Starting a private PostgreSQL below {DISK}")
    with PrivateCluster(SETTINGS, directory=DISK) as cluster:
        say(f"Loading the benchmark table, {rows:,} rows, with an index on its random id")
        with cluster.connect() as helper:
            benchmark_table.create_table(helper, rows)
            files = relation_files(cluster.datadir, helper, benchmark_table.TABLE)
        cluster.restart()  # nothing of the table stays in shared buffers
        with cluster.connect(options=INDEX_FIRST) as backend:
            queries = {
                "sequential scan": benchmark_table.SEQUENTIAL,
                "index scan": benchmark_table.index_scan(rows),
            }
            for query in queries.values():
                backend.execute(f"explain {query}")  # reads the catalogs before we watch
            pid = backend.info.backend_pid
            say(f"pgtrace attach {pid}\n")
            tracer = attach(pid)
            try:
                for name, query in queries.items():
                    say(f"The {name} query: {query}")
                    show(backend, query, files, files)
                    show(backend, query, [], files)
                say("Ending the backend: pgtrace ends with it")
            finally:
                backend.close()
                end(tracer)
    say("The server and its data are removed")


@contextmanager
def simulated(kind: str, base: Path) -> Iterator[str]:
    """A simulated device: what `--storage` says of it."""
    mounted = base / kind
    try:
        subprocess.run([STORAGE, kind, mounted, "--size", "512M"], check=True, cwd=DISK)
        table = mounted / "table"
        table.mkdir()
        mounted.chmod(0o755)
        shutil.chown(table, *pwd.getpwnam("postgres")[2:4])
        yield f"{kind}={table}"
    finally:
        subprocess.run([STORAGE, "stop", mounted], check=True, cwd=DISK)


def compare() -> None:
    """The pages experiment, on three storages side by side."""
    say("The pages experiment: a simulated disk, a simulated SSD, and memory side by side")
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="demo-", dir=DISK)))
        base.chmod(0o755)
        words = [PGTRACE, "lab", "pages", "--memory"]
        for kind in ("hdd", "ssd"):
            words += ["--storage", stack.enter_context(simulated(kind, base))]
        for name, value in COMPARED.items():
            words += [f"--{name}", str(value)]
        say(" ".join(map(str, ["pgtrace", *words[1:]])) + "\n")
        # In a session of its own, so that Ctrl-C comes once: a second one would end its clean-up
        experiment = subprocess.Popen(words, start_new_session=True)
        try:
            if experiment.wait() != 0:
                raise SystemExit(f"demo: pgtrace lab ended with {experiment.returncode}, see above")
        finally:
            experiment.terminate()  # it stops its server, and ends
            experiment.wait()
    say("The server, the devices and their data are removed")


def main() -> int:
    """Run it; an interruption is an end like any other."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        demonstrate(int(sys.argv[1]))
        compare()
    except KeyboardInterrupt:
        say("Stopped: the server and its data are removed")
        return 130
    except subprocess.CalledProcessError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except PgtraceError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
