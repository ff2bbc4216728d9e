"""What may be asked of a tracing session: one object, from the command line to the engine."""

from dataclasses import dataclass

from ..engines import EngineOptions, Tier

MOST_BACKENDS = 1024


@dataclass(frozen=True, kw_only=True)
class TraceOptions(EngineOptions):
    """All of them, with what holds if nobody asks."""

    queries: Tier = "full"
    """How much of queries is measured."""
    charge: bool = True
    """Reads of parallel workers and I/O workers are the backend's for which they work."""
    by_relation: bool = False
    """Each file is told apart."""
    dsn: str | None = None
    """A connection string of libpq's, for names; what it leaves out comes from the environment."""
    as_owner: bool = False
    """Without `dsn`, connect as the server's owner, if one server alone is traced."""
    own_queries: bool = False
    """Backends of pgtrace's own connections are no different from others."""
    checkpoints: bool = False
    """The phases of checkpoints are timed."""
    most_backends: int = MOST_BACKENDS
    """At once, of whole servers."""

    @property
    def by_file(self) -> bool:
        """Whether each file is counted apart: only a file's own number leads to heap or index."""
        return self.by_relation or self.dsn is not None
