"""Where time went as a flame graph: databases on top, below each its statements, and below these
what they did and waited for, each as wide as it took long.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ... import units
from ...model.capture import Capture
from ..sections.stacks import stacks
from ..sections.sums import PERFORMERS
from ..sections.time_parts import CPU, RUN_QUEUE
from .parts import escaped

_WIDTH, _ROW = 960, 18
_LEAST = 3.0
"""Width of a frame; of narrower ones there are as many as one likes, and they are drawn as one."""
_SIGN = 6.2
"""Width of a letter, on average and rather more; of some it is twice as much."""
_MOST_SIGNS = 300
"""Of what is told of a frame: the table has the whole text of a statement."""
COLOURS = {
    CPU: "s2", RUN_QUEUE: "s4", "IO": "device", "Lock": "s3", "LWLock": "sync", "Client": "s0",
}  # fmt: skip
"""By what a process did, or by the type of what it waited for."""
OTHERS = "s5"
_STATEMENTS = 2
"""How far below the root they are."""
_TITLE = "Where the time went: databases, their statements, and what these did and waited for"


@dataclass(slots=True)
class _Frame:
    name: str
    ns: int = 0
    below: dict[str, "_Frame"] = field(default_factory=dict)


def flame(capture: Capture) -> str:
    """Return the figure; "" where time was not measured, or there is none."""
    if not capture.probes.times:
        return ""
    root = _Frame("all processes, without waits for work")
    deepest = 0
    for names, ns in stacks(capture).items():
        frame = root
        frame.ns += ns
        for name in names:
            frame = frame.below.setdefault(name, _Frame(name))
            frame.ns += ns
        deepest = max(deepest, len(names))
    if not root.ns:
        return ""
    drawn = "".join(_drawn(root, root.ns, 0, 0.0, "rest"))
    return (
        f'<figure class="flame"><figcaption>{_TITLE}</figcaption>\n'
        f'<div class="wide" tabindex="0" role="group" aria-label="{_TITLE}">'
        f'<svg role="img" aria-label="{_TITLE}; the sums are in the tables" '
        f'viewBox="0 0 {_WIDTH} {(deepest + 1) * _ROW}"><g aria-hidden="true">{drawn}</g></svg>'
        "</div></figure>"
    )


def _drawn(frame: _Frame, whole: int, depth: int, left: float, colour: str) -> Iterator[str]:
    """It, and what is below it; what takes longest is on the left."""
    width = _WIDTH * frame.ns / whole
    share = units.percent(frame.ns, whole)
    told = f"{_cut(frame.name, _MOST_SIGNS)}: {units.duration(frame.ns)}, {share}"
    yield (
        f'<rect class="{colour}" x="{left:.1f}" y="{depth * _ROW}" '
        f'width="{max(width - 0.5, 0.5):.1f}" height="{_ROW - 1}">'
        f"<title>{escaped(told)}</title></rect>"
    )
    signs = int((width - 6) / _SIGN)
    if signs >= 3:  # of fewer nothing can be read
        kind = "" if colour == "rest" else ' class="on"'
        # An image of its own ends where the frame does, whatever is how wide in it
        yield (
            f'<svg x="{left:.1f}" y="{depth * _ROW}" width="{width - 3:.1f}" height="{_ROW - 1}">'
            f'<text{kind} x="3" y="12">{escaped(_cut(frame.name, signs))}</text></svg>'
        )
    listed = sorted(frame.below.values(), key=lambda each: (-each.ns, each.name))
    wide = [each for each in listed if _WIDTH * each.ns / whole >= _LEAST]
    for each in wide:
        yield from _drawn(each, whole, depth + 1, left, _colour(each.name, depth + 1, colour))
        left += _WIDTH * each.ns / whole
    if rest := listed[len(wide) :]:
        ns = sum(each.ns for each in rest)
        if _WIDTH * ns / whole >= _LEAST:
            more = _Frame(f"({units.count(len(rest))} more)", ns)
            yield from _drawn(more, whole, depth + 1, left, OTHERS)


def _colour(name: str, depth: int, above: str) -> str:
    """None of who did it; an event has that of its type."""
    if depth <= _STATEMENTS or name in PERFORMERS:
        return "rest"
    return COLOURS.get(name, OTHERS) if above == "rest" else above


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
