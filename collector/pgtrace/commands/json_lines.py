"""What attach --json prints: a JSON object for each query that ends, and one that sums up."""

from ..model.capture import COUNT_CALLS
from ..tracing import statements
from ..tracing.tracer import Tracer


class JsonLines:
    """One JSON object per query that ended, and one that sums up."""

    def __init__(self, tracer: Tracer, *, literals: bool) -> None:
        self._tracer = tracer
        self._literals = literals
        self._queries = 0

    def begin(self) -> None:
        """Nothing is data yet."""

    def make_room(self) -> None:
        """What was printed stays."""

    def tick(self) -> None:
        """Print the queries that ended."""
        import msgspec

        from ..model.buckets import plain

        for event in self._tracer.poll():
            self._queries += 1
            one = statements.Statements(literals=self._literals)
            one.add(event)
            query = msgspec.to_builtins(self._tracer.assembly.queries(one)[0], enc_hook=plain)
            started = self._tracer.wall_time(event.start_ns)
            stamp = {"pid": event.pid, "started": started.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
            print(msgspec.json.encode(stamp | query).decode(), flush=True)

    def end(self, reason: str) -> None:
        """Print the last queries, and what all of it was: with what was lost."""
        import msgspec

        from ..model.buckets import plain

        taken = self._tracer.stop()
        self.tick()
        way = taken.probes.queries
        for backend in taken.backends if way == "memory" else ():
            for query in backend.queries:
                one = {"pid": backend.pid} | msgspec.to_builtins(query, enc_hook=plain)
                print(msgspec.json.encode(one).decode(), flush=True)
        summary = {
            "reason": reason,
            "duration_s": taken.duration_s,
            "queries": self._queries if way in COUNT_CALLS else None,
            "totals": taken.totals,
            "lost": taken.lost,
            "not_measured": taken.probes.not_measured,
        }
        print(msgspec.json.encode({"summary": summary}).decode(), flush=True)
