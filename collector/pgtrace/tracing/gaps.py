"""When servers let nobody in: stopped, or ending all their processes after the crash of one."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ..model.capture import Gap, GapReason
from ..units import stamp

_LEFT = (0, 1 << 8)
"""What waitpid() has of a child that is no crash: see process_pm_child_exit() and its like in
src/backend/postmaster/postmaster.c. After a crash, those who are ended by it leave with 2."""
_EXPENDABLE = frozenset({"logger", "stats collector"})
"""Types that are started again by themselves: they are not attached to shared memory."""


@dataclass(slots=True)
class _Gap:
    directory: str
    began_ns: int
    ended_ns: int | None = None
    reason: GapReason = "stop"

    def holds(self, directory: str, at_ns: int) -> bool:
        """Whether that moment is in it.."""
        return self.directory == directory and self.began_ns <= at_ns <= (self.ended_ns or at_ns)


class Gaps:
    """Those of all servers, by their data directories. Times are CLOCK_MONOTONIC, nanoseconds."""

    def __init__(self) -> None:
        self._gaps: list[_Gap] = []

    def stopped(self, directory: str, at_ns: int) -> None:
        """Its postmaster is gone: also what looked like a crash until now was a stop."""
        gap = self._open(directory)
        if gap:
            gap.reason = "stop"
            gap.began_ns = min(gap.began_ns, at_ns)
        else:
            self._gaps.append(_Gap(directory, at_ns))

    def started(self, directory: str, at_ns: int) -> None:
        """Its next postmaster is traced."""
        gap = self._open(directory)
        if gap:
            gap.ended_ns = at_ns

    def child_ended(
        self, directory: str, backend_type: str | None, began_ns: int, ended_ns: int, exit_code: int
    ) -> None:
        """A process of it, as waitpid() has its end. Whoever ended first is told of first, but for
        parallel workers, and backends with queries that were not fetched yet.
        """
        if backend_type == "startup" and exit_code == 0:
            self.recovered(directory, began_ns, ended_ns)
        elif exit_code not in _LEFT and backend_type not in _EXPENDABLE:
            self._crashed(directory, ended_ns)

    def recovered(self, directory: str, began_ns: int, at_ns: int) -> None:
        """Clients are let in; what made it ready began at `began_ns`."""
        crash_ns = self.crash(directory)
        gap = self._open(directory)
        if gap and crash_ns is not None and crash_ns < began_ns:
            gap.ended_ns = at_ns

    def crash(self, directory: str) -> int | None:
        """When its crash was that is not over."""
        gap = self._open(directory)
        return gap.began_ns if gap and gap.reason == "crash" else None

    def are_open(self) -> bool:
        """Whether a server is away now."""
        return any(gap.ended_ns is None for gap in self._gaps)

    def listed(self, wall: Callable[[int], datetime]) -> list[Gap]:
        """All so far, as captures have them."""
        return [
            Gap(
                gap.directory,
                stamp(wall(gap.began_ns)),
                stamp(wall(gap.ended_ns)) if gap.ended_ns else None,
                gap.reason,
            )
            for gap in self._gaps
        ]

    def _crashed(self, directory: str, at_ns: int) -> None:
        gap = self._open(directory)
        if gap:
            gap.began_ns = min(gap.began_ns, at_ns)
        elif not any(g.holds(directory, at_ns) for g in self._gaps):
            self._gaps.append(_Gap(directory, at_ns, reason="crash"))

    def _open(self, directory: str) -> _Gap | None:
        gaps = (g for g in self._gaps if g.directory == directory and g.ended_ns is None)
        return next(gaps, None)
