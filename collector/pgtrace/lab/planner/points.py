"""The points of the planner's sweep: which queries are timed, and under which circumstances.

Each circumstance is varied alone around a usual one, at every selectivity: a full grid would be
five times as long, and say little more of one number.
"""

import msgspec

SELECTIVITIES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
VALUES = (
    1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 25.0, 32.0,
    40.0, 50.0, 64.0, 80.0, 100.0, 128.0, 160.0, 200.0, 256.0,
)  # fmt: skip
"""Of random_page_cost, with seq_page_cost 1: in steps of about a quarter."""
PREFETCHING = 16
"""effective_io_concurrency: the default of PostgreSQL 18, before it was 1."""
HALF_CACHED = 0.5
CLIENTS = 4


class Circumstance(msgspec.Struct, frozen=True, kw_only=True):
    """What a query meets. `column` is that of table.py which it asks for."""

    column: str = "scattered"
    cached: float = 0.0
    """Share of the table in the page cache."""
    io_concurrency: int = 1
    clients: int = 1


class Point(Circumstance, frozen=True):
    """One point of the sweep: a selectivity, in a circumstance."""

    selectivity: float

    @staticmethod
    def of(selectivity: float, met: Circumstance) -> "Point":
        """That of one in the other."""
        return Point(selectivity, **msgspec.structs.asdict(met))

    @property
    def circumstance(self) -> Circumstance:
        """Without the selectivity."""
        return Circumstance(
            column=self.column,
            cached=self.cached,
            io_concurrency=self.io_concurrency,
            clients=self.clients,
        )


CIRCUMSTANCES = (
    Circumstance(),
    Circumstance(column="partly"),
    Circumstance(column="ordered"),
    Circumstance(cached=HALF_CACHED),
    Circumstance(cached=1.0),
    Circumstance(io_concurrency=PREFETCHING),
    Circumstance(clients=CLIENTS),
)
