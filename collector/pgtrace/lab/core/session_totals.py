"""What holds for all captures of an experiment together: their way in, and what was lost."""

from dataclasses import dataclass, field

from ...errors import PgtraceError
from ...model.capture import Capture, Lost, Probes


@dataclass
class Kept:
    """Of those that were kept so far."""

    probes: Probes = field(default_factory=lambda: Probes("libbpf", "tracepoint", "none"))
    lost: Lost = field(default_factory=Lost)
    _some: bool = False

    def keep(self, capture: Capture) -> None:
        """Keep the shortest time seen, all that was not measured, and all that was lost.

        Raises PgtraceError if it is partial: an experiment is no place for half a run.
        """
        if capture.partial:
            raise PgtraceError(f"a run was not measured whole: {'; '.join(capture.partial)}")
        probes, lost = capture.probes, capture.lost
        if self._some:
            seen = [p.shortest_ns for p in (self.probes, probes) if p.shortest_ns is not None]
            probes.shortest_ns = min(seen, default=None)
            known = [*self.probes.not_measured, *probes.not_measured]
            probes.not_measured = list(dict.fromkeys(known))
        self._some, self.probes = True, probes
        self.lost += lost
