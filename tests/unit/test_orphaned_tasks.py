"""Until when children of a postmaster that has ended are looked for, and who has its pid then."""

import pytest

from pgtrace.engines import Postmaster, layout, postmasters
from pgtrace.engines.postmasters import Postmasters
from pgtrace.linux.process_events import Event, Life

PLACES = {4711: 0, 4811: 1}
SINCE = 50


class Host:
    """On which these processes run, and these are parents of tasks that do."""

    def __init__(self) -> None:
        self.started = dict.fromkeys(PLACES, SINCE)
        self.parents = set(PLACES)
        self.live = layout.Live()
        servers = [Postmaster(pid, start_time_ticks=SINCE) for pid in PLACES]
        for place, server in enumerate(servers):
            postmasters.tell(self.live, place, server)
        self.known = Postmasters(self.live, servers, self.children_of)

    def children_of(self) -> set[int]:
        return set(self.parents)

    def ends(self, pid: int) -> None:
        """As the kernel half sees it."""
        del self.started[pid]
        self.live.orphans = 1

    def look(self) -> tuple[int, list[int]]:
        """Whether orphans are looked for, and whose children are traced."""
        self.known.let_go_of_orphans()
        there = range(len(PLACES))
        return self.live.orphans, [self.live.postmasters[place] for place in there]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    monkeypatch.setattr(postmasters.proc, "start_time_ticks", made.started.get)
    return made


def test_while_all_run_nothing_is_looked_for(host: Host) -> None:
    followed = host.live.followed
    assert host.look() == (0, [4711, 4811])
    assert host.live.followed == followed


@pytest.mark.parametrize("pid", PLACES)
def test_once_its_last_child_has_ended_nobody_is_one_of_a_server_that_is_away(
    host: Host, pid: int
) -> None:
    """However long it is: each task of the host would be looked up until then."""
    host.ends(pid)
    assert host.look() == (1, [4711, 4811])
    host.parents.discard(pid)
    for _ in range(2):
        orphans, traced = host.look()
        assert (orphans, traced[PLACES[pid]]) == (0, layout.NOBODY)
        assert traced[1 - PLACES[pid]] in PLACES
        assert host.live.place_of(pid) is None
    assert host.live.parents[PLACES[pid]], "else each task would be a candidate"


def test_another_process_of_its_pid_is_no_postmaster(host: Host) -> None:
    host.ends(4711)
    host.parents.discard(4711)
    host.started[4711] = SINCE + 1
    assert host.look() == (0, [layout.NOBODY, 4811])


def test_one_that_could_not_be_looked_at_is_traced_on(host: Host) -> None:
    """As where pgtrace has too many files open."""
    host.parents.discard(4711)
    del host.started[4711]
    assert host.look() == (0, [layout.NOBODY, 4811])
    host.started[4711] = SINCE
    for _ in range(2):
        followed = host.live.followed
        assert host.look() == (0, [4711, 4811])
    assert host.live.followed == followed
    assert host.live.parents[0] == 0


def test_who_is_left_is_looked_for_whoever_has_the_pid(host: Host) -> None:
    host.ends(4711)
    host.started[4711] = SINCE + 1
    assert host.look() == (1, [4711, 4811])


def test_one_that_comes_again_is_traced_in_its_place(host: Host) -> None:
    host.ends(4811)
    host.parents.discard(4811)
    host.look()
    followed = host.live.followed
    host.started[5000] = SINCE + 7
    host.known.follow(host.known.place(4811), Postmaster(5000, start_time_ticks=SINCE + 7))
    host.parents.add(5000)
    assert host.look() == (0, [4711, 5000])
    assert (host.live.parents[1], host.live.followed) == (0, followed + 1)
    assert host.known.place(5000) == 1


def test_those_of_the_one_before_are_looked_for_after_it_came_again(host: Host) -> None:
    host.ends(4811)
    host.started[5000] = SINCE + 7
    host.known.follow(host.known.place(4811), Postmaster(5000, start_time_ticks=SINCE + 7))
    assert host.look() == (1, [4711, 5000])
    host.parents.discard(4811)
    assert host.look() == (0, [4711, 5000])


def test_an_end_that_comes_just_then_is_not_missed(host: Host) -> None:
    """Between the look at who runs, and the word that there are no orphans."""
    host.ends(4811)
    host.parents.discard(4811)

    def children_of() -> set[int]:
        host.started.pop(4711, None)
        return set(host.parents)

    host.known = Postmasters(
        host.live, [Postmaster(pid, start_time_ticks=SINCE) for pid in PLACES], children_of
    )
    assert host.look() == (1, [4711, layout.NOBODY])


def test_where_it_is_not_known_when_it_began_its_pid_has_to_do(host: Host) -> None:
    host.known = Postmasters(host.live, [Postmaster(pid) for pid in PLACES], host.children_of)
    assert host.look() == (0, [4711, 4811])
    host.ends(4811)
    host.parents.clear()
    assert host.look() == (0, [4711, layout.NOBODY])


def test_children_of_who_has_the_pid_of_an_ended_postmaster_are_not_heard_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server may stay away for days."""
    fork, end = 1, 0x80000000  # PROC_EVENT_FORK, PROC_EVENT_EXIT: linux/cn_proc.h
    monkeypatch.setattr(Life, "_subscribe", lambda _: None)
    life, found = Life({4711}), list[Event]()
    life._take(found, fork, 0, 1, 4711, 4711, 4712, 4712)
    life._take(found, end, 0, 2, 4711, 4711, 0, 0)
    life._take(found, fork, 0, 3, 4711, 4711, 4713, 4713)
    life._take(found, end, 0, 4, 4712, 4712, 0, 0)
    assert found == [Event(4712, 1, False), Event(4711, 2, True), Event(4712, 4, True)]
    life.follow(4711, 4720)
    life._take(found, fork, 0, 5, 4720, 4720, 4721, 4721)
    assert found[-1] == Event(4721, 5, False)
