"""Files of captures and of lab results: JSON, encoded, read and checked."""

import re
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from . import output_file
from .capture import SCHEMA, Capture, sums_of
from .errors import UsageError

if TYPE_CHECKING:
    from .lab.result import Result

_D = TypeVar("_D")
_LAB_SCHEMA = "pgtrace.lab/1"
"""lab.result.SCHEMA, which is not imported for a capture."""


def encode(document: "Capture | Result") -> bytes:
    """Return it as indented JSON, its schema first, each bucket on one line."""
    members = msgspec.to_builtins(document)
    ordered = {"schema": members.pop("schema"), **members}
    try:
        raw = msgspec.json.encode(ordered)
    except UnicodeEncodeError:  # a path that is not UTF-8, such as a data directory's
        raw = msgspec.json.encode(_shown(ordered))
    text = msgspec.json.format(raw, indent=2)
    # Strings hold no line breaks in JSON, so that only lists of three numbers can match.
    return re.sub(rb"\[\n\s+(\d+),\n\s+(\d+),\n\s+(\d+)\n\s+\]", rb"[\1, \2, \3]", text) + b"\n"


def _shown(value: Any) -> Any:
    r"""The same with bytes that are no UTF-8 as `\xff`."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {_shown(key): _shown(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shown(member) for member in value]
    return value


def load(path: Path | str) -> Capture:
    """Read a capture from a file, or from stdin if `path` is "-".

    Raises UsageError if it cannot be read, is no capture, or contradicts itself.
    """
    name, raw = _name(path), _read(path)
    schema = _schema(name, raw)
    if schema != SCHEMA:
        raise UsageError(f"{name} is the result of a lab experiment, not a capture ({schema})")
    return _whole(name, "capture", _capture, raw)


def load_any(path: Path | str) -> "Capture | Result":
    """Read a capture or a lab result, as load()."""
    name, raw = _name(path), _read(path)
    if _schema(name, raw) == SCHEMA:
        return _whole(name, "capture", _capture, raw)
    return _whole(name, "lab result", _lab_result, raw)


def _whole(name: str, what: str, decode: Callable[[bytes], _D], raw: bytes) -> _D:
    try:
        return decode(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not a whole {what}: {error}") from error


def _capture(raw: bytes) -> Capture:
    capture = msgspec.json.decode(raw, type=Capture)
    _check_numbers(msgspec.to_builtins(capture), "$")
    _check_meaning(capture)
    return capture


def _lab_result(raw: bytes) -> "Result":
    from .histogram import Histogram
    from .lab.result import Result

    result = msgspec.json.decode(raw, type=Result)
    _check_numbers([msgspec.to_builtins(cell) for cell in result.cells], "$.cells")
    datetime.fromisoformat(result.started)
    for reads in (reads for cell in result.cells for reads in cell.reads):
        Histogram.from_buckets(reads.histogram.buckets, 0, 0, 0)
    return result


def _name(path: Path | str) -> str:
    return "stdin" if str(path) == "-" else str(path)


def _read(path: Path | str) -> bytes:
    name = _name(path)
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"{name}: no such file") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {_reason(error)}") from error


class _Head(msgspec.Struct):
    schema: str | None = None


def _schema(name: str, raw: bytes) -> str:
    """Raises UsageError if it is none that this pgtrace reads."""
    if not raw.strip():
        raise UsageError(f"{name} is empty")
    try:
        try:
            schema = msgspec.json.decode(raw, type=_Head).schema
        except msgspec.ValidationError:  # which comes before what follows is looked at
            msgspec.json.decode(raw)
            schema = None
    except msgspec.DecodeError as error:
        if "truncated" in str(error):
            raise UsageError(f"{name} ends too early: it was cut, or is still written") from error
        raise UsageError(f"{name} is not JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not a whole capture: {error}") from error
    kind = (schema or "").partition("/")[0]
    if kind not in {"pgtrace.capture", "pgtrace.lab"}:
        raise UsageError(f"{name} is not a capture: it is JSON of another program")
    if schema not in {SCHEMA, _LAB_SCHEMA}:
        raise UsageError(f"{name} is a {schema}; this pgtrace reads /1: upgrade pgtrace")
    return schema


def _check_numbers(value: Any, path: str) -> None:
    """Raise ValueError for a number that counts nothing: all but a query_id count something."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key != "query_id":
                _check_numbers(member, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            _check_numbers(member, f"{path}[{index}]")
    elif isinstance(value, (int, float)) and not 0 <= value <= 1 << 64:
        raise ValueError(f"{value} cannot be - at `{path}`")


def _check_meaning(capture: Capture) -> None:
    """Raise ValueError where the parts of a capture contradict each other."""
    from .histogram import Histogram

    datetime.fromisoformat(capture.started)
    for backend in capture.backends:
        reads = [*backend.reads, *(r for query in backend.queries for r in query.reads)]
        latencies = [query.latency for query in backend.queries]
        for buckets in [*(r.histogram.buckets for r in reads), *(x.buckets for x in latencies)]:
            Histogram.from_buckets(buckets, 0, 0, 0)
    given = msgspec.structs.asdict(capture.totals)
    summed = msgspec.structs.asdict(sums_of(capture.backends))
    for key, value in given.items():
        if value != summed[key]:
            raise ValueError(f"totals.{key} is {value}, but the backends' sum is {summed[key]}")


def write(capture: Capture, path: Path | str, force: bool = False) -> None:
    """Write the capture, for its owner alone; there is never half a file under its name.

    Raises UsageError if it cannot be written there, or exists and `force` is not given.
    """
    output_file.write(encode(capture), path, force)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
