"""From JSON to captures and lab results whose numbers count something and whose sums are right."""

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from operator import attrgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from .buckets import Bucket, plain
from .capture import SCHEMA, Capture, Probes, sums_of

if TYPE_CHECKING:
    from .lab_result import Result

_R = TypeVar("_R", bound="Result")
_MOST = 1 << 64
_AT_ONCE = 100
"""Values, so that a processor's cache holds them from the first attribute to the last."""
_UNIONS = (Union, UnionType)
_NO_NUMBERS = (str, bool, NoneType, int, Sequence[Bucket])
"""The int is a query_id; buckets are checked as they are made."""


def decode_capture(raw: bytes) -> Capture:
    """Raises ValueError or RecursionError if it is no capture, or contradicts itself."""
    capture = msgspec.json.decode(raw, type=Capture)
    if capture.schema != SCHEMA:
        raise ValueError(f"its schema is {capture.schema}")
    _check_numbers(capture)
    _check_meaning(capture)
    return capture


def decode_lab_result(raw: bytes, kind: type[_R]) -> _R:
    """`kind` is the experiment's. Raises ValueError or RecursionError if it is no result of it."""
    result = msgspec.json.decode(raw, type=kind)
    _check_numbers(msgspec.structs.replace(result, findings=[]))
    # Of a difference a bound may be below 0
    _find_fault(msgspec.to_builtins(result.findings), "$.findings", -_MOST)
    _check_probes(result.probes)
    datetime.fromisoformat(result.started)
    return result


def _check_numbers(value: Any, path: str = "$") -> None:
    """Raise ValueError for a number that counts nothing: all but a query_id count something."""
    if not _all_count([value]):
        _find_fault(msgspec.to_builtins(value, enc_hook=plain), path)


def _all_count(values: Iterable[Any]) -> bool:
    """Attribute by attribute, not value by value: of a large capture there are a million."""
    left = iter(values)
    while some := list(islice(left, _AT_ONCE)):
        of: defaultdict[type, list[Any]] = defaultdict(list)
        for value in some:
            of[type(value)].append(value)
        if not all(_all_of_type_count(*each) for each in of.items()):
            return False
    return True


def _all_of_type_count(kind: type, values: list[Any]) -> bool:
    if issubclass(kind, msgspec.Struct):
        numbers, others = _members(kind)
        return all(_are_counts(map(attrgetter(name), values)) for name in numbers) and all(
            _all_count(map(attrgetter(name), values)) for name in others
        )
    if issubclass(kind, dict):
        return _all_count(chain.from_iterable(value.values() for value in values))
    if issubclass(kind, (list, tuple)):
        return _all_count(chain.from_iterable(values))
    return not issubclass(kind, (int, float)) or _are_counts(values)


def _are_counts(numbers: Iterable[float | None]) -> bool:
    """JSON has no NaN, which would be neither the least nor the greatest."""
    others = [number for number in numbers if number]  # neither None nor 0
    return not others or 0 <= min(others) <= max(others) <= _MOST


@functools.cache
def _members(struct: type[msgspec.Struct]) -> tuple[list[str], list[str]]:
    """Those that are numbers or None, and those that may hold some; but for a query_id."""
    numbers, others = [], []
    for name, hint in get_type_hints(struct).items():
        kinds = set(get_args(hint) or [hint]) if get_origin(hint) in _UNIONS else {hint}
        if kinds & {int, float} and name != "query_id":
            numbers.append(name)
        elif not all(map(_has_no_numbers, kinds)):
            others.append(name)
    return numbers, others


def _has_no_numbers(kind: Any) -> bool:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _members(kind) == ([], [])
    return kind in _NO_NUMBERS or get_origin(kind) is Literal


def _find_fault(value: Any, path: str, least: int = 0) -> None:
    if isinstance(value, dict):
        for key, member in value.items():
            if key != "query_id":
                _find_fault(member, f"{path}.{key}", least)
    elif isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            _find_fault(member, f"{path}[{index}]", least)
    elif isinstance(value, (int, float)) and not least <= value <= _MOST:
        raise ValueError(f"{value} cannot be - at `{path}`")


def _check_probes(probes: Probes) -> None:
    """Raise ValueError for what measured nothing, or a thing twice: each is looked for often."""
    if not probes.operations:
        raise ValueError("no operation was measured - at `$.probes.operations`")
    if len(probes.operations) > len(set(probes.operations)):
        raise ValueError("an operation is there twice - at `$.probes.operations`")


def _check_times(capture: Capture) -> None:
    """Raise ValueError for moments that no calendar has."""
    ends = [each.second + (each.length or 0) for each in capture.intervals]
    last = timedelta(days=2)  # what a reader may look at around the session
    try:
        began = datetime.fromisoformat(capture.started).astimezone(UTC)
        _ = began - last, began + last + timedelta(seconds=max([capture.duration_s, *ends]))
    except OverflowError as error:
        raise ValueError(f"it lasted beyond all calendars: {error}") from error


def _check_meaning(capture: Capture) -> None:
    """Raise ValueError where the parts of a capture contradict each other."""
    _check_probes(capture.probes)
    _check_times(capture)
    summed = sums_of(capture.backends, capture.probes.operations)
    if capture.totals.keys() != summed.keys():
        raise ValueError(f"totals are of {[*capture.totals]}, operations are {[*summed]}")
    for operation, total in capture.totals.items():
        for key, value in msgspec.structs.asdict(total).items():
            if value != (own := getattr(summed[operation], key)):
                raise ValueError(
                    f"totals.{operation}.{key} is {value}, but the backends' sum is {own}"
                )
