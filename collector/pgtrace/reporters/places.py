"""What was read: a table by kind or by relation, and one by tablespace; and what was written."""

from collections.abc import Callable, Sequence
from typing import get_args

from .. import units
from ..capture import Call, Capture, Reads, Tablespace, of_operation
from ..histogram import Histogram
from ..statement import escape

MOST_RELATIONS = 20
"""Relations with a line of their own; the others are added up in one."""
_KNOWN_PATTERNS = frozenset({"sequential", "near", "random"})


def tables(capture: Capture) -> list[str]:
    """Return the tables over all backends; none where the files of reads are not known.

    Names stand last, and are left whole.
    """
    reads = of_operation(r for backend in capture.backends for r in backend.reads)
    writes = _written(capture)
    if all(r.kind == "unknown" for r in reads):
        return writes
    if any(r.relation for r in reads):
        lines = _table("relation", grouped(reads, relation_of), most=MOST_RELATIONS)
    else:
        lines = _table("kind", grouped(reads, lambda r: r.kind))
    spaces_about = {space.name: f"{space.name}: {about(space)}" for space in capture.tablespaces}
    spaces = grouped(reads, lambda r: r.tablespace or "(no tablespace)")
    named = [(spaces_about.get(name, name), of_it) for name, of_it in spaces]
    return [*lines, "", *_table("tablespace", named), *([""] if writes else []), *writes]


def written(capture: Capture) -> list[tuple[str, list[Reads]]]:
    """Writes and fsyncs by what they are called: which call, of which files, by whom. Writes first,
    then each call; of those the ones that took longest first.
    """
    order = ("write", *get_args(Call))
    found: dict[tuple[int, str], list[Reads]] = {}
    for backend in capture.backends:
        for r in backend.reads:
            if r.operation != "read":
                who = backend.backend_type or "(type not known)"
                of = relation_of(r) if r.relation else r.kind
                call = r.call or r.operation
                found.setdefault((order.index(call), f"{call}, {of}, {who}"), []).append(r)
    keys = sorted(found, key=lambda key: (key[0], -_time(found[key]), key[1]))
    return [(key[1], found[key]) for key in keys]


def _written(capture: Capture) -> list[str]:
    found = written(capture)
    if not found:
        return []
    whole = sum(_time(of_it) for _, of_it in found)
    lines = [f"{'calls':>11}{'size':>11}{'mean':>10}{'time':>10}{'p99':>9}{'max':>8}  what, of, by"]
    for name, of_it in found:
        total = Histogram.of(of_it)
        sized = of_it[0].operation == "write"
        lines.append(
            f"{units.count(total.count):>11}"
            f"{units.size(sum(r.bytes for r in of_it)) if sized else '':>11}"
            f"{units.duration(total.total_ns / max(total.count, 1)):>10}"
            f"{units.duration_beside(total.total_ns, whole):>10}"
            f"{units.duration(total.percentile(99) or 0, 2):>9}"
            f"{units.duration(total.max_ns or 0, 2):>8}"
            f"  {escape(name)}"
        )
    return lines


def relation_of(r: Reads) -> str:
    """Its relation with its kind, as reports name it."""
    return f"{r.relation} ({r.kind})" if r.relation else f"({r.kind})"


def grouped(reads: Sequence[Reads], name: Callable[[Reads], str]) -> list[tuple[str, list[Reads]]]:
    """Return reads by what they are called, those that took longest first."""
    found: dict[str, list[Reads]] = {}
    for r in reads:
        found.setdefault(name(r), []).append(r)
    return sorted(found.items(), key=lambda item: (-_time(item[1]), item[0]))


def _table(
    title: str,
    groups: Sequence[tuple[str, list[Reads]]],
    *,
    most: int | None = None,
) -> list[str]:
    shown = list(groups[:most])
    rest = groups[len(shown) :]
    if rest:
        left = [r for _, reads in rest for r in reads]
        shown.append((f"({units.count(len(rest))} more)", left))
    whole = sum(_time(reads) for _, reads in groups)
    head = f"{'reads':>11}{'size':>11}{'mean':>10}{'time':>10}{'device':>9}{'random':>8}  {title}"
    return [head, *(f"{_numbers(reads, whole)}  {escape(name)}" for name, reads in shown)]


def _numbers(reads: Sequence[Reads], whole_ns: int) -> str:
    """Shares: of the time, that of reads that waited for a device; of reads, the random ones."""
    count, time = sum(r.count for r in reads), _time(reads)
    device = device_ns(reads)
    followed = sum(r.count for r in reads if r.pattern in _KNOWN_PATTERNS)
    random = sum(r.count for r in reads if r.pattern == "random")
    return (
        f"{units.count(count):>11}"
        f"{units.size(sum(r.bytes for r in reads)):>11}"
        f"{units.duration(time / max(count, 1)):>10}"
        f"{units.duration_beside(time, whole_ns):>10}"
        f"{'?' if device is None else units.percent(device, time):>9}"
        f"{units.percent(random, followed) if followed else '?':>8}"
    )


def device_ns(reads: Sequence[Reads]) -> int | None:
    """How long those waited for a device of which it is known; None if it is known of none."""
    if all(r.source == "unknown" for r in reads):
        return None
    return sum(r.total_ns for r in reads if r.source == "device")


def _time(reads: Sequence[Reads]) -> int:
    return sum(r.total_ns for r in reads)


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
