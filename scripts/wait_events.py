"""Ask servers what they call each wait event: `scripts/wait-events` says how, and calls it."""

import sys
import time
from pathlib import Path

import psycopg

from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.postgres import binary
from pgtrace.postgres.versions import major_of
from pgtrace.postgres.wait_events import WaitEvent

NAMES = Path(__file__).parents[1] / "collector/pgtrace/postgres/wait_event_names"
CLASSES = range(1, 16)
EVENTS = 512
"""Asked for in each class, in which the largest has about 100: numbers are given one by one."""
UNKNOWN = {None, "unknown wait event", "???", "extension"}
"""What servers say of a number that is no event's, or an extension's lock."""
ASK = "select wait_event_type, wait_event from pg_stat_activity where pid = %s"


def asked(cluster: PrivateCluster) -> dict[int, WaitEvent]:
    """What a server calls the events that it has, by their numbers in my_wait_event_info."""
    found = {}
    with cluster.connect() as chief, cluster.connect() as sleeper:
        pid = sleeper.info.backend_pid
        sleeper.pgconn.send_query(b"select pg_sleep(600)")
        while chief.execute(ASK, (pid,)).fetchone() != ("Timeout", "PgSleep"):
            time.sleep(0.01)
        where = binary.pointer(pid, binary.variable_address(pid, "my_wait_event_info"))
        with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
            for number in CLASSES:
                for event in range(EVENTS):
                    info = number << 24 | event
                    memory.seek(where)
                    memory.write(info.to_bytes(4, sys.byteorder))
                    if name := _named(chief, pid):
                        found[info] = name
        chief.execute("select pg_terminate_backend(%s)", (pid,))
        sleeper.close()
    return found


def _named(chief: psycopg.Connection, pid: int) -> WaitEvent | None:
    try:
        row = chief.execute(ASK, (pid,)).fetchone()
    except psycopg.errors.InternalError_:  # from 17 on, of what an extension would have registered
        return None
    assert row is not None, "the backend has ended"
    known = row[1] not in UNKNOWN and not row[1].startswith("<unassigned:")
    return WaitEvent(*row) if known else None


def without_repeats(found: dict[int, WaitEvent]) -> dict[int, WaitEvent]:
    """Some versions call every number of a class alike: then it has but one event."""
    alike = {i for i in found if i & 0xFFFF and found[i] == found.get(i & 0xFF000000)}
    return {info: name for info, name in found.items() if info not in alike}


def version(cluster: PrivateCluster) -> str:
    """Such as 18.6, or 19rc1."""
    with cluster.connect() as chief:
        row = chief.execute("show server_version").fetchone()
    assert row is not None
    return str(row[0].split()[0])


def lines(of: str, found: dict[int, WaitEvent]) -> str:
    """The file for this version."""
    head = f"# Wait events of PostgreSQL {of}, asked of a server by scripts/wait-events\n"
    return head + "".join(f"{info:08x} {name.type} {name.event}\n" for info, name in found.items())


def main(bindirs: list[str]) -> None:
    """Write a file for the server of each folder."""
    for bindir in bindirs:
        with PrivateCluster({"autovacuum": False, "fsync": False}, bindir=Path(bindir)) as cluster:
            of = version(cluster)
            found = without_repeats(asked(cluster))
        NAMES.mkdir(exist_ok=True)
        file = NAMES / f"{major_of(of)}.txt"
        file.write_text(lines(of, found))
        print(f"{file.name}: {len(found)} wait events of PostgreSQL {of}")


if __name__ == "__main__":
    main(sys.argv[1:])
