"""Who pays for what was done in an interval: of a parallel worker, its leader."""

from pgtrace.engines import Key
from pgtrace.postgres.titles import Title
from pgtrace.tracing.gains import Gain
from pgtrace.tracing.recorder import Recorder
from pgtrace.tracing.traced_process import TracedProcess


def process(serial: int, leader: TracedProcess | None = None) -> TracedProcess:
    return TracedProcess(serial, 4000 + serial, 4000 + serial, 1, Title(), 0, leader=leader)


def test_the_time_of_a_worker_is_its_leaders_as_its_reads_are() -> None:
    """Else what a worker waits for the device would be a share of time in which it is not."""
    leader = process(1)
    known = {1: leader, 2: process(2, leader), 3: process(3)}
    recorder = Recorder(lambda *_: None, known.get)
    key = Key("query", "backend", False, "1", "random", "device", 7)
    for serial in known:
        recorder.count(serial, None, Gain((serial, 0), key, (1, 8192, 1000)))
        recorder.spend(serial, ("sleep", "query", 5), 1000)
        recorder.spend(serial, ("cpu", "query", 0), 100)
    taken = recorder.take()
    assert {row.serial: sums[2] for row, sums in taken.rows.items()} == {1: 2000, 3: 1000}
    assert taken.spent == {
        (1, "sleep", "query", 5): 2000,
        (1, "cpu", "query", 0): 200,
        (3, "sleep", "query", 5): 1000,
        (3, "cpu", "query", 0): 100,
    }
    assert taken.processes.keys() == {1, 3}
