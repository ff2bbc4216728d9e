"""How long programs may take to look at, who pays, and what is said where nothing comes of it."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from child import Child, Idle, state_of, wait_for
from pgtrace.errors import TargetError
from pgtrace.linux import process_user
from pgtrace.postgres import discovery, hidden_servers, proc, program

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
        return program.understood(names, b"{}\n")


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


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Idle]:
    """It works where a lock file is, as a server does."""
    (tmp_path / "postmaster.pid").touch()
    with Idle(cwd=tmp_path) as process:
        yield process


def test_a_look_to_which_nothing_came_is_said_and_another_one_may_succeed(
    idle: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a server that `list` and `capture --all` would leave out without a word."""
    monkeypatch.setattr(program, "_known", {})
    with monkeypatch.context() as patch:
        patch.setattr(program.unprivileged, "MOST_SECONDS", 0)
        discovery.servers()
    assert idle.pid in discovery.not_told()
    hidden = hidden_servers.hidden_servers()
    assert hidden is not None
    assert re.search(
        r"process(es)? [\d, ]+( and \d+ more)?, which works? in a directory with", hidden
    )
    with pytest.raises(TargetError, match="is not PostgreSQL"):
        proc.postgresql(idle.pid)
    discovery.servers()
    assert idle.pid not in discovery.not_told()


def test_what_a_process_has_become_meanwhile_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = program._remembered
    monkeypatch.setattr(program, "_known", {})
    with Child("sh", "-c", "read line; exec sleep 60") as process:
        before = Path(f"/proc/{process.pid}/exe").readlink()

        def changed(*arguments: Any) -> program.Known:
            process.say("")
            wait_for(lambda: Path(f"/proc/{process.pid}/exe").readlink() != before)
            monkeypatch.setattr(program, "_remembered", remembered)
            return remembered(*arguments)

        monkeypatch.setattr(program, "_remembered", changed)
        found = program.look(f"/proc/{process.pid}/exe", "main")
        ((*_, inode, _, _, _),) = program._known
        assert inode == Path("/bin/sleep").stat().st_ino
        assert not found.kind.server


def test_a_process_that_ends_meanwhile_is_none_that_could_not_be_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "_known", {})
    remembered = program._remembered
    with Idle() as process:

        def ended(*arguments: Any) -> program.Known:
            process.send(signal.SIGKILL)
            wait_for(lambda: state_of(process.pid) == "Z")
            return remembered(*arguments)

        found = proc.process(process.pid)
        monkeypatch.setattr(program, "_remembered", ended)
        assert proc.version(found) is None


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
