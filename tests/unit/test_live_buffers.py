"""How shared_buffers fared lately: an old answer is none, nor is one across a reset."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from pgtrace.live.buffers import Buffers
from pgtrace.postgres.database_stats import Row


def shop(hit: int, read: int, *, reset: float | None = None) -> Row:
    return Row(5, reset, "shop", hit, read)


class Server:
    """What pg_stat_database had, as it was asked last."""

    def __init__(self, *rows: Row) -> None:
        self.names: Any = SimpleNamespace()
        self.seconds = 0
        self.has(*rows)

    def has(self, *rows: Row) -> None:
        """Two seconds later."""
        self.seconds += 2
        self.names.buffers_now = time.monotonic() + self.seconds, list(rows)


def test_an_old_answer_is_not_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the connection is lost, and while the server is away."""
    server, buffers = Server(shop(100, 10)), Buffers()
    assert buffers.look(server.names) is None
    server.has(shop(197, 13))
    assert buffers.look(server.names) == buffers.look(server.names) == (97, 3)
    assert buffers.seconds == pytest.approx(2, abs=0.5)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    assert buffers.look(server.names) is None


def test_after_a_reset_nothing_is_known_until_it_was_asked_twice() -> None:
    server, buffers = Server(shop(100, 10)), Buffers()
    buffers.look(server.names)
    server.has(shop(197, 13))
    assert buffers.look(server.names) == (97, 3)
    server.has(shop(5, 0, reset=1.0))
    assert buffers.look(server.names) is None
    server.has(shop(9, 1, reset=1.0))
    assert buffers.look(server.names) == (4, 1)


def test_of_some_databases_the_others_are_left_out() -> None:
    """Also what all databases share, which is in a row without a name."""
    server = Server(shop(100, 10), Row(6, None, "bank", 0, 0), Row(0, None, None, 0, 0))
    shops, banks, none = (Buffers(frozenset({name})) for name in ("shop", "bank", "other"))
    every = Buffers()
    for buffers in (shops, banks, none, every):
        buffers.look(server.names)
    server.has(shop(197, 13), Row(6, None, "bank", 1000, 500), Row(0, None, None, 50, 5))
    assert shops.look(server.names) == (97, 3)
    assert banks.look(server.names) == (1000, 500)
    assert none.look(server.names) is None
    assert every.look(server.names) == (1147, 508)


def test_what_passes_while_nobody_answers_is_no_time_without_hits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as a server's restart: what came in seconds before and after is not of all of it."""
    server, buffers = Server(shop(100, 10)), Buffers()
    buffers.look(server.names)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    assert buffers.look(server.names) is None
    server.has(shop(200, 20))
    assert buffers.look(server.names) is None
    server.has(shop(250, 25))
    assert buffers.look(server.names) == (50, 5)
