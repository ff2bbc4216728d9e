"""--fail-if: what a script asks, such as p99(device) > 1.2x."""

import re
from dataclasses import dataclass
from math import inf
from typing import get_args

from ..model.capture import Operation, Pattern, Source
from . import captures
from .comparison import Condition, Metric
from .estimate import Missing
from .pieces import Stratum
from .side import Side

_FORM = re.compile(
    r"\s*(?P<metric>[a-z_]+|p\d+(?:\.\d+)?)\s*(?:\((?P<of>[^()]*)\)\s*)?"
    r"(?P<sign>[<>])\s*(?P<number>[+-]?\d+(?:\.\d+)?)\s*(?P<unit>x|%)\s*",
    re.ASCII,
)
METRICS: dict[str, Metric] = {
    "mean": "time_per_block",
    "speed": "speed",
    "mix": "mix",
    "blocks": "blocks_per_second",
    "time": "time_per_second",
}
_OPERATIONS: tuple[Operation, ...] = get_args(Operation)
_SOURCES: tuple[Source, ...] = get_args(Source)
_PATTERNS: tuple[Pattern, ...] = ("sequential", "near", "random")
WORDS = (*_OPERATIONS, *_SOURCES, *_PATTERNS)
HINT = "say it as in --fail-if 'p99(device) > 1.2x' or --fail-if 'mean > 20%'"


class NoConditionError(ValueError):
    """It cannot be understood."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Whether B by A is above, or below, a ratio."""

    text: str
    metric: str
    operation: Operation
    sources: frozenset[Source]
    patterns: frozenset[Pattern]
    """None given: all of them."""
    above: bool
    ratio: float

    def wants(self, key: Stratum) -> bool:
        """Whether it is asked of that."""
        return (
            key.operation == self.operation
            and (not self.sources or key.source in self.sources)
            and (not self.patterns or key.pattern in self.patterns)
        )


def parse(text: str) -> Asked:
    """Raises NoConditionError."""
    found = _FORM.fullmatch(text)
    if not found:
        raise NoConditionError(f"{text!r} is no condition: {HINT}")
    metric, words = found["metric"], _words(found["of"])
    if metric in METRICS:
        told = str(METRICS[metric])
    elif re.fullmatch(r"p\d+(\.\d+)?", metric) and 0 < float(metric[1:]) < 100:
        told = metric
    else:
        known = ", ".join([*METRICS, "p50, p99 and other percentiles"])
        raise NoConditionError(f"{metric!r} is not known; there are {known}: {HINT}")
    if unknown := [word for word in words if word not in WORDS]:
        raise NoConditionError(f"{unknown[0]!r} is not known; there are {', '.join(WORDS)}: {HINT}")
    operations = [each for each in _OPERATIONS if each in words]
    if len(operations) > 1:
        raise NoConditionError(f"{text!r} is of two operations: give one for each: {HINT}")
    number = float(found["number"])
    ratio = number if found["unit"] == "x" else 1 + number / 100
    if not 0 < ratio < inf or (found["unit"] == "x" and found["number"][0] in "+-"):
        raise NoConditionError(f"{text!r} asks for a ratio that cannot be: {HINT}")
    patterns: frozenset[Pattern] = frozenset(each for each in _PATTERNS if each in words)
    if patterns and told.startswith("p") and told[1:2].isdigit():
        raise NoConditionError(
            f"{text!r}: of patterns no percentiles are kept by interval; ask for the mean: "
            f"--fail-if 'mean({', '.join(words)}) {found['sign']} {found['number']}{found['unit']}'"
        )
    return Asked(
        text=text,
        metric=told,
        operation=operations[0] if operations else "read",
        sources=frozenset(each for each in _SOURCES if each in words),
        patterns=patterns,
        above=found["sign"] == ">",
        ratio=ratio,
    )


def _words(text: str | None) -> list[str]:
    if text is None:
        return []
    return [word.strip().replace(" ", "_") for word in text.split(",")]


def evaluate(asked: Asked, a: Side, b: Side) -> Condition:
    """Whether it is so: only if all of the 95 % interval says so; somebody chose it beforehand, so
    that it needs no correction for being many.
    """
    found = captures.estimated(a, b, asked.metric, asked.wants)
    if isinstance(found, Missing):
        return Condition(text=asked.text, outcome="not_decided", why=found.why)
    low, high = found.interval()
    is_so = low > asked.ratio if asked.above else high < asked.ratio
    is_not = high <= asked.ratio if asked.above else low >= asked.ratio
    return Condition(
        text=asked.text,
        outcome="true" if is_so else "false" if is_not else "not_decided",
        value=found.value,
        low=low,
        high=high,
    )
