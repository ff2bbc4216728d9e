"""Where time went as folded stacks, for flamegraph.pl, inferno, speedscope and their like:
`database;statement;type;event microseconds`, https://github.com/brendangregg/FlameGraph.
"""

from collections import Counter
from collections.abc import Iterator

from ..model.capture import Capture
from .sections.stacks import stacks
from .view import View

_NS = 1000
"""In a microsecond."""


def report(capture: Capture, _: View) -> Iterator[str]:
    """Yield a line for each stack, in their order. Raise UsageError if time was not measured."""
    found: Counter[str] = Counter()
    for frames, ns in stacks(capture).items():
        found[";".join(frame.replace(";", ",") for frame in frames)] += ns
    for stack, ns in sorted(found.items()):
        if ns >= _NS:
            yield f"{stack} {ns // _NS}\n"
