"""Servers with one real problem each: a web shop that goes on, and what makes it slow.

The tests make them as well, and hold what pgtrace says first against what the problem is.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from pgtrace.lab.core.page_cache import evict, relation_files
from pgtrace.lab.core.private_cluster import PrivateCluster

Connection = psycopg.Connection[Any]
Client = Callable[[PrivateCluster, Connection], None]
"""What a client does again and again."""

ORDERS = 200_000
SETTINGS = {
    "shared_buffers": "4MB",
    "shared_preload_libraries": "pg_stat_statements",
    "max_parallel_workers_per_gather": 0,
    "autovacuum": False,
    "fsync": False,
}
DISK = Path("/var/tmp")  # unlike /tmp never in memory, where nothing is cold
SHOP = f"""
create extension if not exists pg_stat_statements;
create table orders (id int, customer int, note text);
insert into orders
    select id, id % 1000, repeat(md5(id::text), 6) from generate_series(1, {ORDERS}) as id
    order by hashint4(id);
create table customers as select id, 'customer ' || id as name from generate_series(1, 1000) as id;
create index orders_id on orders (id);
create index customers_id on customers (id);
vacuum analyze orders;
vacuum analyze customers;
"""


class Problem(NamedTuple):
    """`heavy` is what makes the server slow; the shop's own clients go on meanwhile."""

    what: str
    heavy: Client
    settings: dict[str, object]
    options: tuple[str, ...]
    """Of `pgtrace capture`, to find it."""
    seconds: int = 3
    """To watch, at least."""
    customer: Client | None = None
    """In the shop's clients' stead."""
    more: str = ""
    """Tables beside those of the shop."""
    page_cache: int | None = None
    """So many bytes the server has of it."""


_EVICTED: dict[Path, list[Path]] = {}
"""The files of orders, by server: asked for once, as that is a query that everybody sees."""


def evict_orders(server: PrivateCluster, client: Connection) -> None:
    """Whoever reads them next finds nothing in the page cache."""
    if server.datadir not in _EVICTED:
        _EVICTED[server.datadir] = [*relation_files(server.datadir, client, "orders")]
    evict(_EVICTED[server.datadir])


def shop(server: PrivateCluster, client: Connection) -> None:
    """A customer who looks around."""
    client.execute("select name from customers where id = %s", [random.randint(1, 1000)])
    time.sleep(0.02)


def cold_reads(server: PrivateCluster, client: Connection) -> None:
    """A report reads one order here and one there, of a table that is not cached."""
    evict_orders(server, client)
    ids = random.sample(range(1, ORDERS), 200)
    client.execute("select sum(length(note)) from orders where id = any(%s)", [ids])


def n_plus_one(server: PrivateCluster, client: Connection) -> None:
    """An ORM asks for each order's note by itself."""
    for number in range(1, 1000):
        client.execute("select note from orders where id = %s", [number])


def fsync_stalls(server: PrivateCluster, client: Connection) -> None:
    """An import commits each row."""
    client.execute("insert into orders values (0, 0, 'imported')")


def buy(server: PrivateCluster, client: Connection) -> None:
    """A customer who looks at many orders, all of which fit into memory."""
    # Many at once: what was pushed out has to be read again sooner than the next scan comes
    ids = random.sample(range(1, ORDERS), 20)
    client.execute("select note from orders where id = any(%s)", [ids])
    time.sleep(0.005)


def evicting_scan(server: PrivateCluster, client: Connection) -> None:
    """A report reads a large table from its start to its end, every few seconds."""
    time.sleep(6)
    client.execute("select count(*) from archive where note like '%x%'")


def autovacuum(server: PrivateCluster, client: Connection) -> None:
    """A batch changes rows all over a table that is not cached; autovacuum reads it behind it."""
    evict(relation_files(server.datadir, client, "orders"))
    # Few, so that all goes to shared buffers, and the batch waits for WAL once; but in so many
    # pages that vacuum skips none: it does where 32 in a row need nothing
    ids = random.sample(range(1, ORDERS), 500)
    client.execute("update orders set customer = customer + 1 where id = any(%s)", [ids])
    time.sleep(0.5)


PROBLEMS = {
    "cold-reads": Problem(
        "A report reads single orders of a table that is not in memory.",
        cold_reads,
        {},
        (),
    ),
    "n-plus-one": Problem("A page asks for a thousand orders one by one.", n_plus_one, {}, ()),
    "evicting-scan": Problem(
        "A report scans a large table, and the pages that the shop needs leave the page cache.",
        evicting_scan,
        {},
        (),
        seconds=12,
        customer=buy,
        more="create table archive as select id, repeat(md5(id::text), 30) as note "
        "from generate_series(1, 400000) as id;\nvacuum analyze archive",
        page_cache=75 << 20,
    ),
    "autovacuum": Problem(
        "A batch changes rows all over a table, and autovacuum reads all of it behind it.",
        autovacuum,
        {
            "autovacuum": True,
            "autovacuum_naptime": "1s",
            "autovacuum_vacuum_scale_factor": 0,
            "autovacuum_vacuum_cost_delay": 0,
            "fsync": True,
            "checkpoint_timeout": "30s",
            "shared_buffers": "16MB",
        },
        ("--operations", "read,write,fsync"),
        seconds=8,
    ),
    "fsync-stalls": Problem(
        "An import commits each row by itself.",
        fsync_stalls,
        {"fsync": True},
        ("--operations", "read,write,fsync"),
        seconds=5,
    ),
}


@contextmanager
def _page_cache(most: int | None) -> Iterator[Path | None]:
    """A cgroup whose processes have no more of it, until all of them have ended."""
    if most is None:
        yield None
        return
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    parent = Path("/sys/fs/cgroup" if unified else "/sys/fs/cgroup/memory")
    if unified:
        (parent / "cgroup.subtree_control").write_text("+memory")
    group = Path(tempfile.mkdtemp(prefix="pgtrace-problem-", dir=parent))
    try:
        (group / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(f"{most}")
        yield group
    finally:
        for _ in range(100):
            try:
                group.rmdir()
            except OSError:  # the last of them is about to end
                time.sleep(0.1)
            else:
                break


def _confine(server: PrivateCluster, group: Path) -> None:
    """What the server reads from now on is of this cgroup; what it needs most is read at once."""
    postmaster = (server.datadir / "postmaster.pid").read_text().splitlines()[0]
    with server.connect() as connection:
        for table in ("orders", "orders_id", "customers", "customers_id", "archive"):
            evict(relation_files(server.datadir, connection, table))
    (group / "cgroup.procs").write_text(postmaster)
    with server.connect() as connection:
        for _ in range(2):  # what was read twice stays longest
            connection.execute("select count(note) from orders")
            connection.execute("select count(*) from orders where id > 0")


@contextmanager
def running(
    problem: Problem, make: Callable[..., PrivateCluster] = PrivateCluster, **where: Any
) -> Iterator[PrivateCluster]:
    """A server with the shop's clients, and with what makes it slow, until the block is left."""
    stop = threading.Event()

    def go_on(client: Client, name: str) -> None:
        with server.connect(application_name=name) as connection:
            while not stop.is_set():
                client(server, connection)

    with (
        _page_cache(problem.page_cache) as limit,
        make(SETTINGS | problem.settings, **where) as server,
        ExitStack() as stack,
    ):
        with server.connect() as connection:
            for statement in f"{SHOP.strip()}\n{problem.more}".split(";\n"):
                connection.execute(statement)
        server.restart()  # nothing of it stays in shared buffers
        if limit:
            _confine(server, limit)
        customer = problem.customer or shop
        clients = [(customer, "shop"), (customer, "shop"), (problem.heavy, "heavy")]
        for each in clients:
            thread = threading.Thread(target=go_on, args=each)
            stack.callback(thread.join)
            thread.start()
        stack.callback(stop.set)
        yield server


def main() -> None:
    """Make one, and say how to look at it."""
    parser = argparse.ArgumentParser(prog="make", description=__doc__)
    parser.add_argument("problem", choices=PROBLEMS)
    problem = PROBLEMS[parser.parse_args().problem]
    with tempfile.TemporaryDirectory(prefix="problem-", dir=DISK) as directory:
        Path(directory).chmod(0o755)
        with running(problem, directory=Path(directory)) as server:
            options = [*problem.options, f"--duration {problem.seconds + 2}"]
            print(f"The server is there. In another terminal, find out why it is slow:\n\n  sudo "
                  f"pgtrace capture --server {server.datadir} {' '.join(options)}\n\n"
                  "Enter ends it. ", end="", flush=True)  # fmt: skip
            sys.stdin.readline()
            print(problem.what)


if __name__ == "__main__":
    main()
