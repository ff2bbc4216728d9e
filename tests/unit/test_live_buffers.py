"""How shared_buffers fared lately: an old answer is none."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from pgtrace.live.buffers import Buffers
from pgtrace.postgres import database_stats


def test_an_old_answer_is_not_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the connection is lost, and while the server is away."""
    monkeypatch.setattr(database_stats, "between", lambda *_: [SimpleNamespace(hit=97, read=3)])
    names: Any = SimpleNamespace(buffers_now=(time.monotonic() - 2, []))
    buffers = Buffers()
    assert buffers.look(names) is None
    names.buffers_now = time.monotonic(), []
    assert buffers.look(names) == buffers.look(names) == (97, 3)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    assert buffers.look(names) is None
