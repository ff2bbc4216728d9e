"""What was read: a table by kind or by relation, and one by tablespace."""

from collections.abc import Callable, Sequence

from .. import units
from ..capture import Capture, Reads, Tablespace
from ..statement import escape

MOST_RELATIONS = 20
"""Relations with a line of their own; the others are added up in one."""
_KNOWN_PATTERNS = frozenset({"sequential", "near", "random"})


def tables(capture: Capture) -> list[str]:
    """Return the tables over all backends; none where the files of reads are not known.

    Names stand last, and are left whole.
    """
    reads = [r for backend in capture.backends for r in backend.reads if r.operation == "read"]
    if all(r.kind == "unknown" for r in reads):
        return []
    if any(r.relation for r in reads):
        lines = _table("relation", grouped(reads, relation_of), most=MOST_RELATIONS)
    else:
        lines = _table("kind", grouped(reads, lambda r: r.kind))
    spaces_about = {space.name: f"{space.name}: {about(space)}" for space in capture.tablespaces}
    spaces = grouped(reads, lambda r: r.tablespace or "(no tablespace)")
    named = [(spaces_about.get(name, name), of_it) for name, of_it in spaces]
    return [*lines, "", *_table("tablespace", named)]


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
    told = [r for r in reads if r.source != "unknown"]
    device = sum(r.total_ns for r in told if r.source == "device")
    followed = sum(r.count for r in reads if r.pattern in _KNOWN_PATTERNS)
    random = sum(r.count for r in reads if r.pattern == "random")
    return (
        f"{units.count(count):>11}"
        f"{units.size(sum(r.bytes for r in reads)):>11}"
        f"{units.duration(time / max(count, 1)):>10}"
        f"{units.duration_beside(time, whole_ns):>10}"
        f"{units.percent(device, time) if told else '?':>9}"
        f"{units.percent(random, followed) if followed else '?':>8}"
    )


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
