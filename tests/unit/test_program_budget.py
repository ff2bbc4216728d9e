"""How long the programs of one user may take to look at, and who pays for it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from child import Idle
from pgtrace.errors import TargetError
from pgtrace.linux import process_user
from pgtrace.postgres import hidden_servers, proc, program

OWN = os.getuid()


class Clock:
    """In which a look takes two seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for name in "_known", "_spent":
            monkeypatch.setattr(program, name, {})
        monkeypatch.setattr(program, "_left_out", set())
        monkeypatch.setattr(program, "_look", self.look)
        monkeypatch.setattr(program.time, "monotonic", lambda: self.now)

    def look(self, _: object, names: frozenset[str]) -> program.Known:
        self.now += 2
        return program.understood(names, b"")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_what_is_beyond_is_left_out_for_a_minute(clock: Clock, tmp_path: Path) -> None:
    with Idle() as idle:
        exe = f"/proc/{idle.pid}/exe"
        for name in "abc":
            program.look(exe, name)
        with pytest.raises(program.NotLookedAtError):
            program.look(exe, "d")
        program.look(exe, "c")  # is known
        assert program.left_out() == [OWN]
        assert f"servers of user {OWN}" in (hidden_servers.hidden_servers() or "")
        clock.now += 60
        program.look(exe, "d")
        assert program.left_out() == []


def test_a_process_that_is_not_looked_at_is_no_other_one(clock: Clock) -> None:
    program._spent[OWN] = clock.now, 99.0
    with Idle() as idle, pytest.raises(TargetError, match="took too long"):
        proc.postgresql(idle.pid)


def test_nobody_pays_for_another(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    program._spent[OWN + 1] = clock.now, 99.0
    with Idle() as idle:
        program.look(f"/proc/{idle.pid}/exe")
    assert program._spent[OWN] == (1000.0, 2.0)


def test_nobody_drives_out_what_is_known_of_another(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = dict.fromkeys([(1, 0), (2, 0), (2, 1), (3, 0)])
    monkeypatch.setattr(program, "_known", known)
    program._forget_one()
    assert {*known} == {(1, 0), (2, 1), (3, 0)}


def test_subordinate_users_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_user, "_subordinate", lambda: [range(100_000, 165_536)])
    uid: Callable[[int], object] = lambda uid: monkeypatch.setattr(  # noqa: E731
        process_user, "user_of", lambda _: uid
    )
    found = []
    for each in 99_999, 100_000, 165_535, 165_536:
        uid(each)
        found.append(process_user.who_answers_for(1))
    assert found == [99_999, 100_000, 100_000, 165_536]
