"""What the kernel sends: a query that ended, and slots that others took for one."""

import struct
from typing import NamedTuple

from . import QueryEvent, layout
from .statement_table import signed

QUERY = struct.Struct(f"<IIQQQII8B3Q{layout.NAME}s")
"""Of struct query, what stands before its text."""
CHARGED = struct.Struct("<IIQII")


class Charged(NamedTuple):
    """A slot was taken for a query by a task that is not the query's."""

    charged_to: int
    query: int
    place: int


def charged(data: bytes) -> Charged | None:
    """None if the record is a query's."""
    if data[0] == layout.RECORD_QUERY:
        return None
    _, charged_to, query, place, _ = CHARGED.unpack_from(data)
    return Charged(charged_to, query, place)


def query(data: bytes, *, ended: bool) -> tuple[QueryEvent, int, int]:
    """A query without its reads, its number, and the place of the first slot that is its own."""
    (_, serial, number, start, end, first, length, protocol, _, executed, done, failed, before,
     cut, _, query_id, statement, waited, application) = QUERY.unpack_from(data)  # fmt: skip
    event = QueryEvent(
        serial=serial,
        text=data[QUERY.size : QUERY.size + length],
        text_cut=bool(cut),
        application_name=application.partition(b"\0")[0],
        protocol=layout.PROTOCOLS[protocol],
        # Where it is probed, a simple query's missing query__done tells of an error, too
        error=bool(failed) or (ended and protocol == layout.SIMPLE and not done),
        executed=bool(executed),
        begun_before=bool(before),
        start_ns=start,
        end_ns=end if ended else 0,
        reads={},
        query_id=signed(query_id),
        waited_ns=waited,
        statement=statement,
    )
    return event, number, first
