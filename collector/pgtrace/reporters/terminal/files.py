"""What was read: a table by kind or by relation, and one by tablespace; and what was written."""

import itertools
from collections.abc import Callable, Sequence

from ... import units
from ...model.capture import Capture, Io, Tablespace, of_operation
from ...model.histogram import Histogram
from ..sections.sums import device_ns, relation_of, time_of, written
from ..view import WIDTH
from .sentence import row, sentence

MOST_RELATIONS = 20
"""Unless told otherwise; the others are added up in one."""
_KNOWN_PATTERNS = frozenset({"sequential", "near", "random"})


def tables(capture: Capture, *, most: int = MOST_RELATIONS, width: int = WIDTH) -> list[str]:
    """Return the tables over all backends; none where the files of reads are not known.

    Names stand last, and are folded. `most` relations have a row of their own.
    """
    reads = of_operation(r for backend in capture.backends for r in backend.io)
    writes = _written(capture, width)
    if all(r.kind == "unknown" for r in reads):
        return writes
    if any(r.relation for r in reads):
        lines = _table("relation", grouped(reads, relation_of), width, most=most)
    else:
        lines = _table("kind", grouped(reads, lambda r: r.kind), width)
    spaces = grouped(reads, lambda r: r.tablespace or "(no tablespace)")
    lines += ["", *_table("tablespace", spaces, width)]
    abouts = {space.name: f"{space.name}: {about(space)}." for space in capture.tablespaces}
    for name, _ in spaces:
        lines += sentence(abouts[name], width) if name in abouts else []
    return [*lines, *([""] if writes else []), *writes]


def _written(capture: Capture, width: int) -> list[str]:
    found = written(capture)
    if not found:
        return []
    whole = sum(time_of(of_it) for _, of_it in found)
    lines = [f"{'calls':>10}{'size':>11}{'mean':>9}{'time':>9}{'p99':>8}{'max':>8}  what, of, by"]
    for name, of_it in found:
        total = Histogram.of(of_it)
        sized = of_it[0].operation == "write"
        numbers = (
            f"{units.count(total.count):>10}"
            f"{units.size(sum(r.bytes for r in of_it)) if sized else '':>11}"
            f"{units.duration(total.total_ns / max(total.count, 1)):>9}"
            f"{units.duration_beside(total.total_ns, whole):>9}"
            f"{units.duration(total.percentile(99) or 0, 2):>8}"
            f"{units.duration(total.max_ns or 0, 2):>8}"
        )
        lines += row(numbers, name, width)
    return lines


def grouped(reads: Sequence[Io], name: Callable[[Io], str]) -> list[tuple[str, list[Io]]]:
    """Return reads by what they are called, those that took longest first."""
    found: dict[str, list[Io]] = {}
    for r in reads:
        found.setdefault(name(r), []).append(r)
    return sorted(found.items(), key=lambda item: (-time_of(item[1]), item[0]))


def _table(
    title: str,
    groups: Sequence[tuple[str, list[Io]]],
    width: int,
    *,
    most: int | None = None,
) -> list[str]:
    shown = list(groups[:most])
    rest = groups[len(shown) :]
    if rest:
        left = [r for _, reads in rest for r in reads]
        shown.append((f"({units.count(len(rest))} more)", left))
    whole = sum(time_of(reads) for _, reads in groups)
    head = f"{'reads':>10}{'size':>11}{'mean':>9}{'time':>9}{'device':>8}{'random':>8}  {title}"
    rows = (row(_numbers(reads, whole), name, width) for name, reads in shown)
    return [head, *itertools.chain.from_iterable(rows)]


def _numbers(reads: Sequence[Io], whole_ns: int) -> str:
    """Shares: of the time, that of reads that waited for a device; of reads, the random ones."""
    count, time = sum(r.count for r in reads), time_of(reads)
    device = device_ns(reads)
    followed = sum(r.count for r in reads if r.pattern in _KNOWN_PATTERNS)
    random = sum(r.count for r in reads if r.pattern == "random")
    return (
        f"{units.count(count):>10}"
        f"{units.size(sum(r.bytes for r in reads)):>11}"
        f"{units.duration(time / max(count, 1)):>9}"
        f"{units.duration_beside(time, whole_ns):>9}"
        f"{'?' if device is None else units.percent(device, time):>8}"
        f"{units.percent(random, followed) if followed else '?':>8}"
    )


def about(space: Tablespace) -> str:
    """Where it lies: `ext4 on nvme0n1, read-ahead 128 KiB, in /fast`."""
    words = space.filesystem or "file system not known"
    if space.device:
        words += f" on {space.device}"
    if space.rotational:
        words += ", rotational"
    if space.simulated:
        words += ", simulated"
    if space.read_ahead_kb is not None:
        words += f", read-ahead {space.read_ahead_kb} KiB"
    return f"{words}, in {space.location}" if space.location else words
