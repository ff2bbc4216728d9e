"""Statements of a capture of the light tier, each of all backends together, with its calls.

Calls are those of pg_stat_statements.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ... import units
from ...model.capture import Capture, Executions, Query, of_operation
from ...terminal_text import escape, shortened, shown
from ..sections.sums import device_ns

MOST = 10
"""Statements with a line of their own."""
_NUMBERS = 44
"""Columns that these take."""


def table(capture: Capture, width: int) -> list[str]:
    """Return one line for each, that which took longest to be executed first; none without calls.

    Reads are all of a statement's, whoever performed them: they may overlap.
    """
    if not capture.executions:
        return []
    queries = _by_id(capture)
    lines = [f"{'calls':>11}{'executing':>11}{'its reads':>11}{'device':>11}  statement"]
    for each in capture.executions[:MOST]:
        lines.append(_line(each, queries, width))
    if left := capture.executions[MOST:]:
        calls, took = (sum(e.calls for e in left), sum(e.total_ns for e in left))
        lines.append(
            f"{units.count(calls):>11}{units.duration(took):>11}{'':>22}"
            f"  ({units.count(len(left))} more, in --format json)"
        )
    return lines


def _by_id(capture: Capture) -> Mapping[int | None, list[Query]]:
    found: defaultdict[int | None, list[Query]] = defaultdict(list)
    for backend in capture.backends:
        for query in backend.queries:
            found[query.query_id].append(query)
    return found


def _line(each: Executions, queries: Mapping[int | None, list[Query]], width: int) -> str:
    own = queries[each.query_id]
    reads = of_operation(r for query in own for r in query.io)
    read_ns = sum(r.total_ns for r in reads) if own else None
    waited_ns = device_ns(reads) if own else None
    return (
        f"{units.count(each.calls):>11}"
        f"{units.duration(each.total_ns):>11}"
        f"{'?' if read_ns is None else units.duration(read_ns):>11}"
        f"{'?' if waited_ns is None else units.duration(waited_ns):>11}"
        f"  {_shortened(own, max(width - _NUMBERS - 2, 20))}"
    )


def _shortened(queries: Sequence[Query], width: int) -> str:
    text = shown(queries[0].text, cut=queries[0].text_cut) if queries else shown(None, cut=False)
    return shortened(" ".join(escape(text).split()), width)
