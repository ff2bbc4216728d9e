"""Where time went, against what the server itself shows: looks at pg_stat_activity."""

import math
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_time_cases import LASTING, SLOW_US, by_name

from child import Child, wait_for
from copied_cluster import CopiedCluster
from fix_cluster import Connection, bindir
from fix_markers import PG_VERSION
from fix_storage import Simulated
from pgtrace.lab.core.private_cluster import PrivateCluster
from pgtrace.tracing.tracer import trace
from time_watch import PROBE_TYPE

LOOKS, SECONDS = 2_000, 40
CLIENTS = 6
Z = 4
"""Standard errors: of a dozen shares one is farther off by chance in one of a thousand runs."""
MIXED = r"""
\set account random(1, 100000)
\set teller random(1, 4)
\sleep 4 ms
begin;
update pgbench_accounts set abalance = abalance + 1 where aid = :account;
update pgbench_tellers set tbalance = tbalance + 1 where tid = :teller;
end;
select pg_sleep(0.004);
"""
SHOWN = """
select pid, lower(wait_event_type || ':' || wait_event) from pg_stat_activity
where application_name = 'pgbench'
"""


@pytest.fixture(scope="module")
def bench(simulated: Simulated) -> Iterator[PrivateCluster]:
    directory = simulated(2 * SLOW_US).directory
    with CopiedCluster(LASTING, bindir=bindir(PG_VERSION), directory=directory) as server:
        command = server.command("pgbench", "-i", "-q")
        subprocess.run(command, check=True, capture_output=True)
        yield server


def look(connection: Connection) -> dict[int, str | None]:
    """What the clients' backends show, in lower case; None: nothing."""
    return dict(connection.execute(SHOWN).fetchall())


@pytest.mark.apart
def test_shares_are_those_of_two_thousand_looks(bench: PrivateCluster, tmp_path: Path) -> None:
    """They are spread over the time at random, so that they cannot beat with the load. What several
    backends show in one look hangs together: then it tells no more than one of them would.

    The server shows a wait until its process runs again. So it shows what pgtrace has as sleep, and
    may show it for some of the time that the process was awake, or about to be.
    """
    script = tmp_path / "script"
    script.write_text(MIXED)
    shown: Counter[str | None] = Counter()
    command = bench.command("pgbench", "-n", "-c", f"{CLIENTS}", "-T", "600", "-f", "-")
    with (
        script.open() as stdin,
        Child(*command, stdin=stdin) as started,
        bench.connect() as looker,
    ):
        pids = set(wait_for(lambda: len(found := look(looker)) == CLIENTS and found))
        with trace(bench.postmaster_pid, probe_type=PROBE_TYPE, times=True) as tracer:
            began = time.monotonic()
            for number in range(LOOKS):
                due = began + (number + random.random()) * SECONDS / LOOKS
                time.sleep(max(0, due - time.monotonic()))
                shown.update(look(looker).values())
        started.kill()
    taken = tracer.capture()
    assert not taken.lost.times
    spent: Counter[str] = Counter()
    for backend in taken.backends:
        if backend.pid in pids:
            spent += by_name(backend.times)
    whole, seen = sum(spent.values()), sum(shown.values())
    assert whole == pytest.approx(CLIENTS * taken.duration_s * 1e9, rel=0.01)
    asleep = {name: ns / whole for name, ns in spent.items() if ":" in name}
    awake = 1 - sum(asleep.values())
    assert awake < 0.3, "otherwise what follows says little"
    assert sum(share > 0.05 for share in asleep.values()) >= 4
    for name in asleep.keys() | shown.keys() - {None}:
        share, told = shown[name] / seen, asleep.get(name, 0)
        # Of one that is hardly ever shown, as if it were in one look
        error = math.sqrt(max(told * (1 - told), 1 / LOOKS) / LOOKS)
        assert told - Z * error <= share <= told + awake + Z * error, name
    assert shown[None] / seen <= awake + Z * math.sqrt(awake * (1 - awake) / LOOKS)
