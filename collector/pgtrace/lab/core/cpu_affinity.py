"""Server and tracer on CPUs of their own, so that neither takes the other's."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...errors import UsageError


@dataclass(frozen=True, slots=True)
class Pins:
    """CPU numbers; None leaves it to the kernel."""

    server: int | None = None
    tracer: int | None = None
    allowed: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))
    """Those that this process could use when it began."""

    def check(self) -> None:
        """Raise UsageError for a CPU that there is not, or that this process may not use."""
        for option, cpu in (("--cpu-server", self.server), ("--cpu-tracer", self.tracer)):
            if cpu is not None and cpu not in self.allowed:
                known = ", ".join(map(str, sorted(self.allowed)))
                raise UsageError(f"{option} {cpu}: there is no such CPU to use; there are {known}")

    @contextmanager
    def for_tracer(self) -> Iterator[None]:
        """This thread, and those that it starts meanwhile."""
        with _pinned(self.allowed if self.tracer is None else frozenset({self.tracer})):
            yield

    @contextmanager
    def for_server(self) -> Iterator[None]:
        """For starting a server: its processes inherit it."""
        with _pinned(self.allowed if self.server is None else frozenset({self.server})):
            yield

    def pin_backend(self, pid: int) -> None:
        """One process of a server that runs already."""
        if self.server is not None:
            os.sched_setaffinity(pid, {self.server})


@contextmanager
def _pinned(cpus: frozenset[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
