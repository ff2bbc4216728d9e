"""The answer of a comparison: what somebody would say aloud."""

from math import log

from ... import units
from ...comparing.comparison import Comparison, Condition, Finding
from ...model.capture import Operation
from .comparison_causes import amount, kinds, rest, why
from .comparison_statements import statements
from .comparison_words import is_whole, margin_of, ratio_of, times, values_of

_DOING: dict[Operation, str] = {
    "read": "reading a block", "write": "writing a block", "fsync": "an fsync",
}  # fmt: skip
_MOST_RUNS = 10


def answer(of: Comparison) -> list[str]:
    """What somebody would say aloud."""
    primary = next((each for each in of.findings if each.primary), None)
    asked = [_condition(each) for each in of.conditions]
    if of.experiment:
        return [*_of_runs(of), *asked]
    if primary is None:
        return ["Neither side did anything that could be compared.", *asked]
    first = _first(primary, of.margin)
    by: dict[str, Finding] = {
        each.metric: each for each in of.findings if is_whole(each, primary.of.operation)
    }
    if primary.of.operation != "read":
        return [first, *kinds(of), *asked]
    cause, more = [*kinds(of), *why(of, primary, by)], [*amount(of, by), *statements(of)]
    # What differs stands before what does not
    decided = primary.outcome in ("more", "less")
    said = [first, *cause, *more] if decided else [*more, first, *cause]
    return [*said, *_percentiles_said(by, primary), *rest(of, by), *asked]


def _percentiles_said(by: dict[str, Finding], primary: Finding) -> list[str]:
    """Where they tell another thing than the mean."""
    return [
        f"The {words} of all reads is {ratio_of(each)} as long{values_of(each)}."
        for name, words in (("p50", "median"), ("p99", "p99"))
        if (each := by.get(name)) and each.outcome in ("more", "less")
        and each.outcome != primary.outcome
    ]  # fmt: skip


def _of_runs(of: Comparison) -> list[str]:
    """What differs in a lab result, most first; then of how many it is not so, or not known."""
    elapsed = [each for each in of.findings if each.metric == "elapsed"]
    differ = [each for each in elapsed if each.outcome in ("more", "less")]
    differ.sort(key=lambda each: -abs(log(each.value or 1)))
    said = [
        f"{each.of.run}: {'slower' if each.outcome == 'more' else 'faster'} in B, elapsed "
        f"{ratio_of(each)}{values_of(each)}."
        for each in differ[:_MOST_RUNS]
    ]
    same = sum(each.outcome == "no_difference" for each in elapsed)
    open_ = len(elapsed) - len(differ) - same
    why = {each.why for each in elapsed if each.outcome == "not_decided"}
    reason = f": {why.pop()}; measure with more --runs" if len(why) == 1 and None not in why else ""
    rest = [
        f"Of {units.count(len(elapsed))} measurements {units.count(len(differ))} differ, "
        f"{units.count(same)} do not by more than {margin_of(of.margin)}, "
        f"{units.count(open_)} are not decided{reason}."
    ]
    return [*said, *rest]


def _condition(condition: Condition) -> str:
    words = {"true": "true", "false": "not so", "not_decided": "not decided"}[condition.outcome]
    if condition.low is None or condition.high is None:
        return f"{condition.text}: {words}: {condition.why}."
    return f"{condition.text}: {words} ({times(condition.low, condition.high)})."


def _first(primary: Finding, margin: float) -> str:
    doing = _DOING[primary.of.operation]
    values = values_of(primary)
    if primary.low is None or primary.high is None:
        return f"Not decided whether {doing} takes longer: {primary.why}{values}."
    interval = times(primary.low, primary.high)
    if primary.outcome in ("more", "less"):
        word = "Slower" if primary.outcome == "more" else "Faster"
        return f"{word} in B: {doing} takes {interval} as long{values}."
    if primary.outcome == "no_difference":
        return f"No difference above {margin_of(margin)}: {doing} takes {interval} as long{values}."
    hint = f"; {primary.why}" if primary.why else "; a longer capture would tell"
    return f"Not decided whether {doing} takes longer in B: {interval} as long{values}{hint}."
