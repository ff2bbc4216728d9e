"""Page costs of a capture, as text for a person or as JSON."""

import textwrap
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from .. import units
from ..model.capture import Buffers, Capture
from ..stats.batch_means import LEAST_READS, Figure
from ..stats.page_costs import PATTERNS, Cell, SpaceCosts, costs
from ..terminal_text import escape
from .sections.sums import PERFORMERS, SOURCES
from .terminal.files import about
from .view import WIDTH

if TYPE_CHECKING:
    from ..postgres.explain import Plans

SCHEMA = "pgtrace.planner/1"
_LIMIT = (
    "These are times of reads. What a plan costs is elapsed time, which a capture cannot see: "
    "no value of random_page_cost follows from them."
)
_NOTHING = (
    "Not measured: no read of a relation is in the intervals of this capture. It saw none, "
    "or was taken by a version that kept no intervals."
)


def render(capture: Capture, plans: "Plans | None" = None, *, width: int = WIDTH) -> str:
    """Return the report; statements fit `width` columns, sentences are left whole."""
    started = datetime.fromisoformat(capture.started).astimezone(UTC)
    lines = [
        f"Page costs, from a capture of {started:%Y-%m-%d %H:%M:%S} UTC, "
        f"{units.duration(capture.duration_s * 1e9)}, in "
        f"{units.count(len(capture.intervals))} intervals",
    ]
    spaces = costs(capture)
    if not spaces:
        lines += ["", _NOTHING]
    for space in spaces:
        lines += ["", *_space(capture, space)]
    lines += ["", _LIMIT]
    if capture.buffers:
        lines += ["", *_buffers(capture.buffers)]
    if plans:
        lines += ["", *_plans(capture, plans, width)]
    return "\n".join(lines) + "\n"


def render_json(capture: Capture, plans: "Plans | None" = None) -> str:
    """Return the same as JSON: times are nanoseconds per block."""
    document = {
        "schema": SCHEMA,
        "started": capture.started,
        "duration_s": capture.duration_s,
        "intervals": len(capture.intervals),
        "tablespaces": costs(capture),
        "buffers": capture.buffers,
        "plans": plans,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _space(capture: Capture, space: SpaceCosts) -> list[str]:
    known = {each.name: f": {about(each)}" for each in capture.tablespaces}
    name = "(tablespace not known)" if space.tablespace is None else space.tablespace
    head = escape(name + known.get(name, ""))
    reads = sum(space.patterns[pattern].all.reads for pattern in PATTERNS)
    if reads < LEAST_READS:
        few = f"  Not measured: {units.count(reads)} {'read' if reads == 1 else 'reads'} in all."
        return [head, few, *_left_out(space)]
    lines = [
        head,
        f"  {'':<20}{'blocks':>12}{'reads':>12}{'a block':>10}  95 % interval",
    ]
    for pattern in PATTERNS:
        of = space.patterns[pattern]
        lines.append(_cell(pattern, of.all))
        if len(of.by_source) > 1:
            lines += [
                _cell(f"  {SOURCES.get(source, source)}", cell)
                for source, cell in of.by_source.items()
            ]
        if len(of.by_size) > 1:
            lines += [
                _cell(f"  {size} {'block' if size == '1' else 'blocks'}", cell)
                for size, cell in of.by_size.items()
            ]
    lines.append(_ratio("random : sequential", space.ratio))
    lines.append(_ratio("  device alone", space.device_ratio))
    return [*lines, *_left_out(space)]


def _cell(name: str, cell: Cell) -> str:
    line = f"  {name:<20}{units.count(cell.blocks):>12}{units.count(cell.reads):>12}"
    return line + _figure(cell.cost, units.duration)


def _ratio(name: str, figure: Figure) -> str:
    return f"  {name:<44}" + _figure(figure, units.number)


def _figure(figure: Figure, shown: Callable[[float], str]) -> str:
    if figure.value is None or figure.low is None or figure.high is None:
        return f"  not measured: {figure.missing}"
    return f"{shown(figure.value):>10}  {shown(figure.low)} to {shown(figure.high)}"


def _left_out(space: SpaceCosts) -> list[str]:
    """What was read, and is in no figure."""
    lines = []
    for pattern, cell in space.untold.items():
        why = "the first read of a file" if pattern == "first" else "not known after what"
        lines.append(f"  Not counted above, because {why}: {_blocks(cell.blocks)}.")
    for performer, total in space.overlapped.items():
        took = f", {units.duration(total.total_ns / total.blocks)} each" if total.blocks else ""
        if performer == "io_uring":
            took += " at most"
        lines.append(
            f"  Not counted above, because read by {PERFORMERS[performer]} while the backend may "
            f"go on: {_blocks(total.blocks)}{took}."
        )
    return lines


def _blocks(count: int) -> str:
    return f"{units.count(count)} {'block' if count == 1 else 'blocks'}"


def _buffers(buffers: Iterable[Buffers]) -> list[str]:
    lines = [f"{'found in shared_buffers':<24}{'of blocks':>14}  database"]
    for each in sorted(buffers, key=lambda b: -(b.hit + b.read)):
        asked = each.hit + each.read
        if asked:
            share = f"{100 * each.hit / asked:.1f} %"
            name = "(shared by all)" if each.datname is None else each.datname
            lines.append(f"{share:>23} {units.count(asked):>14}  {escape(name)}")
    return lines


def _plans(capture: Capture, plans: "Plans", width: int) -> list[str]:
    tried = ", ".join(
        f"{value:g}{' (now)' if value == plans.random_page_cost else ''}" for value in plans.tried
    )
    whose = f"role {escape(plans.role)} in database {escape(plans.database)}"
    lines = [f"Statements of {whose}, at random_page_cost {tried}"]
    captured = capture.server.version
    if captured and captured != plans.server_version.split()[0]:
        lines.append(
            f"The capture is of PostgreSQL {escape(captured)}, these plans of "
            f"{escape(plans.server_version)}."
        )
    total = plans.explained + sum(plans.failed.values())
    changed = len(plans.changed)
    lines.append(
        f"{units.count(plans.explained)} of {units.count(total)} were explained, not executed; "
        f"{units.count(changed)} would change {'its' if changed == 1 else 'their'} plan. "
        "Plans are generic: of values that are not known."
    )
    lines += [f"Not explained, {units.count(n)}: {escape(why)}" for why, n in plans.failed.items()]
    lines += [
        f"Statements of role {escape(role)}: {units.count(n)}. They are explained by a connection "
        "of that role."
        for role, n in plans.of_others.items()
    ]
    if plans.elsewhere:
        lines.append(f"Statements of other databases: {units.count(plans.elsewhere)}.")
    if plans.own_costs:
        names = ", ".join(map(escape, plans.own_costs))
        lines.append(f"Tablespaces that keep a random_page_cost of their own: {names}.")
    for statement in plans.changed:
        lines += ["", *_wrap(f"▶ {escape(statement.text)}", width, 2)]
        for values, plan in statement.plans:
            named = ", ".join(f"{value:g}" for value in values)
            lines += _wrap(f"  {named:<14}  {escape(plan)}", width, 18)
    return lines


def _wrap(text: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, 40),
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
