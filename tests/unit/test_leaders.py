"""Whose parallel worker somebody is, where a server has pids of its own."""

from pgtrace.postgres.titles import Title
from pgtrace.tracing.charging import _may_lead
from pgtrace.tracing.traced_process import TracedProcess

OUTER, INNER = 4711, 57


def process(pid: int, inner_pid: int, postmaster: int = 1) -> TracedProcess:
    return TracedProcess(1, pid, inner_pid, postmaster, Title("client backend"), 0)


def worker(leader: int, *, leader_is_inner: bool) -> TracedProcess:
    title = Title("parallel worker", leader_pid=leader)
    return TracedProcess(9, 9, 9, 1, title, 0, leader_is_inner=leader_is_inner)


def test_a_pid_of_inside_is_no_pid_of_outside() -> None:
    """Another backend of the same server may have, here, the pid that the leader has there."""
    leader, other = process(OUTER, INNER), process(INNER, 99)
    inside, outside = worker(INNER, leader_is_inner=True), worker(OUTER, leader_is_inner=False)
    for helper in inside, outside:
        assert _may_lead(leader, helper)
        assert not _may_lead(other, helper)
    assert not _may_lead(process(OUTER, INNER, postmaster=2), inside)
