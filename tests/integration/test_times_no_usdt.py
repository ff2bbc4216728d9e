"""Where the time of queries goes on a server that was built without --enable-dtrace: the same, by
functions that it exports."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_time_cases
import test_time_held_up
import test_times
from test_no_usdt import programs, without
from test_time_cases import slow_server

from fix_storage import SimulatedSsd
from pgtrace.lab.core.private_cluster import PrivateCluster
from time_watch import Watched, watching

# Every test there that looks at a traced backend runs here too, on a server without notes
for _module in test_times, test_time_cases, test_time_held_up:
    for _name, _test in vars(_module).items():
        if _name.startswith("test_"):
            _asks = inspect.signature(_test).parameters
            if "watched" in _asks or "slow" in _asks:
                globals()[_name] = _test
device = test_time_cases.device


@pytest.fixture(scope="module")
def cluster(disk_directory: Path) -> Iterator[PrivateCluster]:
    with without(disk_directory) as server:
        yield server


@pytest.fixture(scope="module")
def slow(device: SimulatedSsd, disk_directory: Path) -> Iterator[PrivateCluster]:
    with programs(disk_directory) as changed, slow_server(device, changed) as server:
        yield server


@pytest.fixture
def watched(cluster: PrivateCluster) -> Iterator[Watched]:
    with watching(cluster) as found:
        assert found.tracer.engine.query_source == "uprobe"
        yield found
