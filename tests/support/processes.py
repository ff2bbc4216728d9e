"""Several programs that are not PostgreSQL, traced together: each probe is loaded once for all."""

from collections.abc import Sequence
from dataclasses import replace

from pgtrace.engines import Member, Request
from pgtrace.postgres.binary import Programs
from pgtrace.postgres.discovery import Backend
from pgtrace.tracing.options import TraceOptions
from pgtrace.tracing.targets import Target


class Processes(Target):
    """By their pids."""

    def request(
        self, options: TraceOptions, programs: Programs, family: Sequence[Backend] | None = None
    ) -> Request:
        members = tuple(Member(pid, pid) for pid in self.pids)
        of_one = super().request(options, programs, family)
        return replace(of_one, members=members, most_tasks=len(members))
