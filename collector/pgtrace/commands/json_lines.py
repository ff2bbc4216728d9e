"""What attach --json prints: a JSON object for each query that ends, and one that sums up."""

import time

from ..model.capture import COUNT_CALLS
from ..postgres.blockers import Wait, wait_of
from ..tracing import statements
from ..tracing.tracer import Tracer
from ..units import stamp

LOOK_EVERY_S = 1.0
"""The query that runs is looked at."""


class JsonLines:
    """One JSON object per query that ended, and for who keeps one from a lock; one that sums up."""

    def __init__(self, tracer: Tracer, *, literals: bool) -> None:
        self._tracer = tracer
        self._literals = literals
        self._queries = 0
        self._next_look = time.monotonic() + LOOK_EVERY_S
        self._told: Wait | None = None

    def begin(self) -> None:
        """Nothing is data yet."""

    def make_room(self) -> None:
        """What was printed stays."""

    def tick(self) -> None:
        """Print the queries that ended, and what the running one waits for."""
        self._take_ended()
        if time.monotonic() >= self._next_look:
            self._look()
            self._next_look = time.monotonic() + LOOK_EVERY_S

    def _take_ended(self) -> None:
        import msgspec

        from ..model.buckets import plain

        for event in self._tracer.poll():
            self._queries += 1
            one = statements.Statements(literals=self._literals)
            one.add(event)
            query = msgspec.to_builtins(self._tracer.assembly.queries(one)[0], enc_hook=plain)
            _print(self._of(event.pid, event.start_ns) | query)

    def _of(self, pid: int, start_ns: int) -> dict[str, object]:
        """Which query a line is of."""
        return {"pid": pid, "started": stamp(self._tracer.wall_time(start_ns))}

    def _look(self) -> None:
        """Print who holds the lock that a query waits for since a while: once, and if it changes.

        Their statements are kept as the query's own is.
        """
        account = self._tracer.account()
        waits = self._tracer.blockers(account)
        if waits is None or account.running is None:
            return
        lock, waited_ns, holders = waits
        told = wait_of(account.running.start_ns, holders)
        if told == self._told:
            return
        self._told = told
        before = [
            each._replace(
                query=statements.shown_text(each.query, cut=False, literals=self._literals)
            )._asdict()
            for each in holders
        ]
        waiting = {"wait_event_type": "Lock", "wait_event": lock, "waited_ns": waited_ns}
        query = self._of(account.process.pid, account.running.start_ns)
        _print(query | {"blocked": waiting | {"by": before}})

    def end(self, reason: str) -> None:
        """Print the last queries, and what all of it was: with what was lost."""
        import msgspec

        from ..model.buckets import plain

        taken = self._tracer.stop()
        self._take_ended()
        way = taken.probes.queries
        for backend in taken.backends if way == "memory" else ():
            for query in backend.queries:
                _print({"pid": backend.pid} | msgspec.to_builtins(query, enc_hook=plain))
        summary = {
            "reason": reason,
            "duration_s": taken.duration_s,
            "queries": self._queries if way in COUNT_CALLS else None,
            "totals": taken.totals,
            "lost": taken.lost,
            "not_measured": taken.probes.not_measured,
        }
        _print({"summary": summary})


def _print(line: dict[str, object]) -> None:
    import msgspec

    print(msgspec.json.encode(line).decode(), flush=True)
