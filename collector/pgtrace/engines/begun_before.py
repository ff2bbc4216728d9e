"""What threads ran when tracing began, in the light tier.

The kernel half looks at a statement when its thread leaves a CPU. One that sleeps since before does
not until it wakes; what it waits for until then is its statement's all the same.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ..errors import PgtraceError
from ..postgres import binary
from . import Counts, Member, Postmaster, ReadsByKey, StatementTotal, layout

_TEXT = layout.TEXT - 1
_NAME = layout.NAME - 1


class Ran(NamedTuple):
    """A statement, by its text: its query id is in the kernel half's hands alone."""

    text: bytes
    cut: bool
    application_name: bytes

    def total(self, reads: ReadsByKey) -> StatementTotal:
        """What it did until it was looked at: of a text whose id gets known, one with that."""
        return StatementTotal(
            text=self.text,
            text_cut=self.cut,
            protocol="unknown",
            begun_before=False,
            application_name=self.application_name,
            query_id=0,
            errors=0,
            latency=Counts(),
            waited_ns=0,
            reads=reads,
            statement=0,
        )


def ran(member: Member, postmasters: Mapping[int, Postmaster]) -> Ran | None:
    """What it runs now; None if that is nothing, or not to be known."""
    server = postmasters.get(member.postmaster)
    if server is None or not server.text:
        return None
    try:
        found = binary.running_query(member.pid, _TEXT, server.text)
        if not found or not found[0]:
            return None
        name = b""
        if server.application_name:
            where = binary.pointer(member.pid, server.application_name)
            name = binary.read_memory(member.pid, where, _NAME).partition(b"\0")[0]
    except PgtraceError:  # it has ended
        return None
    return Ran(*found, name)
