"""How soon pgtrace's threads run."""

import os
import threading

from pgtrace.linux.priority import NICE, soon


def nice() -> int:
    """Of the calling thread."""
    return os.getpriority(os.PRIO_PROCESS, 0)


def test_a_thread_and_what_it_starts_run_before_others_for_so_long() -> None:
    """No other thread is touched, and afterwards all is as it was."""
    before = nice()
    seen: list[int] = []
    started, leave = threading.Event(), threading.Event()

    def other() -> None:
        started.set()
        leave.wait()
        seen.append(nice())

    thread = threading.Thread(target=other)
    thread.start()
    started.wait()
    with soon():
        assert nice() == NICE
        inside = threading.Thread(target=lambda: seen.append(nice()))
        inside.start()
        inside.join()
    leave.set()
    thread.join()
    assert nice() == before
    assert seen == [NICE, before]


def test_who_runs_before_others_already_stays_there() -> None:
    before = nice()
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    try:
        with soon():
            assert nice() == -20
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)
