"""What is asked as a server's owner, where answers come late: the next ones are as good as before.

The child is played by what is written into the other end of its socket.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import msgspec
import pytest

from pgtrace.errors import ConnectionLostError, DatabaseError
from pgtrace.postgres import owners_connection
from pgtrace.postgres.discovery import Place, Server
from pgtrace.postgres.owners_connection import OwnersConnections
from pgtrace.postgres.owners_messages import Answer, Ask, Close, Connect, received_with_file, send
from pgtrace.postgres.proc import Process, start_time_ticks

PLACE = Place("/srv/data", (1, 1), None)
TICKS = start_time_ticks(os.getpid()) or 0
POSTMASTER = Process(
    os.getpid(), 0, os.getpid(), TICKS, os.getuid(), "postgres", "/postgres", False, "", False
)
SERVER = Server(POSTMASTER, "17.6", PLACE, 8192, 5432, "/tmp", "")
WISH = msgspec.msgpack.Decoder(Connect | Ask | Close)
TABLESPACES = [[1663, "pg_default"]]


class Child:
    """It says what it is told to, however early, and tells what it was asked."""

    def __init__(self) -> None:
        self.end, self.channel = socket.socketpair()
        self.channel.settimeout(0)

    def says(self, *answers: Answer) -> None:
        for answer in answers:
            send(self.channel, msgspec.msgpack.encode(answer), [])

    def asked(self) -> list[tuple[str, int]]:
        """What, and of which connection, since the last call."""
        found: list[tuple[str, int]] = []
        with suppress(BlockingIOError):
            while True:
                data, root = received_with_file(self.channel)
                if root is not None:
                    os.close(root)
                wish = WISH.decode(data)
                found.append((type(wish).__name__, getattr(wish, "number", 0)))
        return found


@pytest.fixture
def child() -> Iterator[Child]:
    playing = Child()
    with playing.channel:
        yield playing


@pytest.fixture
def owners(child: Child, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnersConnections]:
    monkeypatch.setattr(owners_connection, "_serve", lambda *_: None)
    monkeypatch.setattr(owners_connection, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(owners_connection, "_LATE_S", 0.05)
    with closing(OwnersConnections(SERVER)) as made:
        made._socket.close()
        made._socket = child.end
        yield made


def connection(number: int, backend_pid: int = 0) -> Answer:
    return Answer(number=number, backend_pid=backend_pid)


def rows(*found: object) -> Answer:
    return msgspec.convert({"rows": found}, Answer)


def tablespaces(owners: OwnersConnections) -> list[tuple[int, str]]:
    with owners.connect() as asked:
        return asked.ask("tablespaces", tuple[int, str])


def test_answers_in_time_close_what_they_opened(owners: OwnersConnections, child: Child) -> None:
    child.says(connection(1), rows(*TABLESPACES), Answer())
    assert tablespaces(owners) == [(1663, "pg_default")]
    assert child.asked() == [("Connect", 0), ("Ask", 1), ("Close", 1)]


def test_an_answer_that_comes_late_is_none_to_what_is_asked_next(
    owners: OwnersConnections, child: Child
) -> None:
    """Nor is its connection left open."""
    child.says(connection(1))
    with pytest.raises(ConnectionLostError, match="gave no answer"):
        tablespaces(owners)
    assert child.asked() == [("Connect", 0), ("Ask", 1)]
    late = rows([1, "of before"])
    child.says(late, Answer(), connection(2), rows(*TABLESPACES), Answer())
    assert tablespaces(owners) == [(1663, "pg_default")]
    assert child.asked() == [("Close", 1), ("Connect", 0), ("Ask", 2), ("Close", 2)]


def test_nothing_is_asked_while_an_answer_is_owed(owners: OwnersConnections, child: Child) -> None:
    """However often it is tried: the child is not there to read it."""
    child.says(connection(1))
    for _ in range(3):
        with pytest.raises(ConnectionLostError, match="gave no answer"):
            tablespaces(owners)
    assert child.asked() == [("Connect", 0), ("Ask", 1)]
    child.says(Answer("too late", is_lost=True), Answer(), connection(2), rows(), Answer())
    assert tablespaces(owners) == []


def test_it_may_be_late_again(owners: OwnersConnections, child: Child) -> None:
    """Also with what only closes a connection, which is closed once."""
    child.says(connection(1))
    with pytest.raises(ConnectionLostError):
        tablespaces(owners)
    child.says(rows())
    with pytest.raises(ConnectionLostError):
        tablespaces(owners)
    assert child.asked() == [("Connect", 0), ("Ask", 1), ("Close", 1)]
    child.says(Answer(), connection(2))
    with pytest.raises(ConnectionLostError):
        tablespaces(owners)
    child.says(rows(), Answer(), connection(3), rows(*TABLESPACES), Answer())
    assert tablespaces(owners) == [(1663, "pg_default")]
    numbers = [("Connect", 0), ("Ask", 2), ("Close", 2), ("Connect", 0), ("Ask", 3), ("Close", 3)]
    assert child.asked() == numbers


def test_a_connection_that_comes_late_is_closed_and_known_as_our_own(
    owners: OwnersConnections, child: Child
) -> None:
    """A superuser's, mostly; and its backend is not to be told of in a capture."""
    opened: list[int] = []
    with pytest.raises(ConnectionLostError), owners.connect(None, opened.append):
        pass
    child.says(connection(1, 4711), Answer(), connection(2, 4712), Answer())
    with owners.connect(None, opened.append):
        assert opened == [4711, 4712]
    assert child.asked() == [("Connect", 0), ("Close", 1), ("Connect", 0), ("Close", 2)]


def test_the_outer_one_of_two_connections_is_asked_on(
    owners: OwnersConnections, child: Child
) -> None:
    """As where one of many databases is asked beside it."""
    child.says(connection(1), connection(2))
    with owners.connect() as outer:
        with pytest.raises(ConnectionLostError), owners.connect("shop") as inner:
            inner.ask("tablespaces", tuple[int, str])
        child.says(rows(), Answer(), rows(*TABLESPACES), Answer())
        assert outer.ask("tablespaces", tuple[int, str]) == [(1663, "pg_default")]
    asked = [("Connect", 0), ("Connect", 0), ("Ask", 2), ("Close", 2), ("Ask", 1), ("Close", 1)]
    assert child.asked() == asked


def test_one_that_was_refused_late_leaves_nothing_to_close(
    owners: OwnersConnections, child: Child
) -> None:
    with pytest.raises(ConnectionLostError), owners.connect():
        pass
    child.says(Answer("too many clients"), Answer("too many clients"))
    with pytest.raises(DatabaseError, match="too many clients"), owners.connect():
        pass
    assert child.asked() == [("Connect", 0)] * 2


def test_a_child_that_ends_while_an_answer_is_owed_is_gone(
    owners: OwnersConnections, child: Child
) -> None:
    with pytest.raises(ConnectionLostError, match="gave no answer"), owners.connect():
        pass
    child.channel.close()
    for _ in range(2):
        with pytest.raises(ConnectionLostError, match="is gone"), owners.connect():
            pass


def test_who_waits_is_let_go_at_the_end(
    owners: OwnersConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is another thread that ends it all."""
    monkeypatch.setattr(owners_connection, "_PATIENCE_S", 60)
    ending = threading.Timer(0.1, owners.close)
    ending.start()
    with pytest.raises(ConnectionLostError, match="is gone"), owners.connect():
        pass
    ending.join()


def test_an_answer_that_does_not_end_is_the_last(owners: OwnersConnections, child: Child) -> None:
    """Where the next one begins nobody knows."""
    child.channel.sendall(b"\x09\0\0\0half")
    with pytest.raises(ConnectionLostError, match="gave no answer"), owners.connect():
        pass
    with pytest.raises(ConnectionLostError, match="is gone"), owners.connect():
        pass
