"""What makes a crash, and how long it lasts, in whatever order ends are learnt."""

from datetime import UTC, datetime, timedelta

import pytest

from pgtrace.model.capture import Gap
from pgtrace.tracing.gaps import Gaps

KILLED, LEFT_WITH_2, FATAL = 9, 2 << 8, 1 << 8
SEGFAULT_WITH_CORE = 11 | 128


def wall(ns: int) -> datetime:
    return datetime(2026, 1, 31, tzinfo=UTC) + timedelta(seconds=ns)


def listed(gaps: Gaps) -> list[tuple[int, int | None, str]]:
    def second(gap: Gap) -> tuple[int, int | None, str]:
        return int(gap.began[17:19]), int(gap.ended[17:19]) if gap.ended else None, gap.reason

    return [second(gap) for gap in gaps.listed(wall)]


def end(gaps: Gaps, kind: str | None, at: int, code: int, began: int = 0) -> None:
    gaps.child_ended("/data", kind, began, at, code)


@pytest.mark.parametrize("code", [KILLED, SEGFAULT_WITH_CORE, LEFT_WITH_2, 3 << 8])
def test_crash_lasts_until_recovery_has_ended(code: int) -> None:
    gaps = Gaps()
    end(gaps, "client backend", 10, code)
    end(gaps, "checkpointer", 11, LEFT_WITH_2)
    assert listed(gaps) == [(10, None, "crash")]
    end(gaps, "startup", 13, 0, began=12)
    assert listed(gaps) == [(10, 13, "crash")]


@pytest.mark.parametrize(
    ("kind", "code"),
    [("client backend", 0), ("client backend", FATAL), ("startup", 0), ("logger", KILLED)],
)
def test_what_is_no_crash(kind: str, code: int) -> None:
    gaps = Gaps()
    end(gaps, kind, 10, code)
    assert listed(gaps) == []


def test_who_crashed_may_be_told_of_later_than_who_was_ended_by_it() -> None:
    gaps = Gaps()
    end(gaps, "parallel worker", 11, LEFT_WITH_2)
    end(gaps, "client backend", 10, KILLED)
    end(gaps, "startup", 13, 0, began=12)
    end(gaps, "client backend", 11, LEFT_WITH_2)
    assert listed(gaps) == [(10, 13, "crash")]


def test_crash_in_recovery_prolongs_the_gap_and_one_after_it_is_another() -> None:
    gaps = Gaps()
    end(gaps, "client backend", 10, KILLED)
    end(gaps, "checkpointer", 13, KILLED, began=12)
    end(gaps, "startup", 14, LEFT_WITH_2, began=12)
    end(gaps, "startup", 16, 0, began=15)
    end(gaps, "walwriter", 20, KILLED, began=16)
    assert listed(gaps) == [(10, 16, "crash"), (20, None, "crash")]


def test_startup_that_began_before_the_crash_ends_nothing() -> None:
    gaps = Gaps()
    end(gaps, "client backend", 10, KILLED)
    end(gaps, "startup", 11, 0, began=9)
    assert listed(gaps) == [(10, None, "crash")]


def test_immediate_stop_is_one_gap() -> None:
    """Processes are ended as after a crash; that the postmaster is gone too is seen later."""
    gaps = Gaps()
    end(gaps, "client backend", 10, LEFT_WITH_2)
    gaps.stopped("/data", 12)
    gaps.stopped("/data", 13)
    gaps.stopped("/other", 13)
    gaps.started("/data", 14)
    assert listed(gaps) == [(10, 14, "stop"), (13, None, "stop")]
