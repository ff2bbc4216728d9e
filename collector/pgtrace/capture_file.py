"""Files of captures and of lab results: JSON, encoded, read and checked."""

import errno
import functools
import gc
import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from . import output_file, output_stream
from .buckets import Bucket, Buckets, plain
from .capture import SCHEMA, Capture, Probes, sums_of
from .errors import UsageError, reason

if TYPE_CHECKING:
    from .lab.result import Result

_D = TypeVar("_D")
_HELD = "@"
"""In the place of buckets, until a document is formatted."""
_MOST = 1 << 64
_UNIONS = (Union, UnionType)
_NO_NUMBERS = (str, bool, NoneType, int, Sequence[Bucket])
"""The int is a query_id; buckets are checked as they are made."""
_LAB_SCHEMA = "pgtrace.lab/1"
"""lab.result.SCHEMA, which is not imported for a capture."""


def encode(document: "Capture | Result") -> bytes:
    """Return it as indented JSON, its schema first, each bucket on one line."""
    whole = io.BytesIO()  # grows where it is: parts that are joined would be there twice
    whole.writelines(encoded(document))
    return whole.getvalue()


def encoded(document: "Capture | Result") -> Iterator[bytes]:
    """The same in parts: of a large capture, one after the other takes a part of the memory."""
    backends = document.backends if isinstance(document, Capture) else []
    if isinstance(document, Capture):
        document = msgspec.structs.replace(document, backends=[])
    members = msgspec.to_builtins(document, enc_hook=plain)
    text = _formatted({"schema": members.pop("schema"), **members})
    if not isinstance(document, Capture):
        # Strings hold no line breaks in JSON, so that only lists of three numbers can match.
        text = re.sub(rb"\[\n\s+(\d+),\n\s+(\d+),\n\s+(\d+)\n\s+\]", rb"[\1, \2, \3]", text)
    if backends:
        before, name, after = text.partition(b'"backends": [')
        yield before + name
        for number, backend in enumerate(backends):
            yield (b",\n    " if number else b"\n    ") + _formatted(backend, b"    ")
        text = b"\n  " + after
    yield text + b"\n"


def _formatted(value: Any, indent: bytes = b"") -> bytes:
    """It as JSON of many lines; all but the first begin with `indent`."""
    found: list[Buckets] = []

    def hold(buckets: Buckets) -> str:
        found.append(buckets)
        return _HELD

    try:
        raw = msgspec.json.encode(value, enc_hook=hold)
    except UnicodeEncodeError:  # a path that is not UTF-8, such as a data directory's
        found.clear()
        raw = msgspec.json.encode(_shown(msgspec.to_builtins(value, enc_hook=hold)))
    text = msgspec.json.format(raw, indent=2)
    if indent:
        text = text.replace(b"\n", b"\n" + indent)
    # In a string, quotation marks would not be bare
    first, *others = text.split(f'"buckets": "{_HELD}"'.encode())
    parts = [first]
    for buckets, other in zip(found, others, strict=True):
        line = parts[-1].rpartition(b"\n")[2]
        parts += [b'"buckets": ', buckets.lines(line), other]
    return b"".join(parts)


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
    if capture := _if_capture(raw):
        return capture
    schema = _schema(name, raw)
    if schema != SCHEMA:
        raise UsageError(f"{name} is the result of a lab experiment, not a capture ({schema})")
    return _whole(name, "capture", _capture, raw)


def load_any(path: Path | str) -> "Capture | Result":
    """Read a capture or a lab result, as load()."""
    name, raw = _name(path), _read(path)
    if capture := _if_capture(raw):
        return capture
    if _schema(name, raw) == SCHEMA:
        return _whole(name, "capture", _capture, raw)
    return _whole(name, "lab result", _lab_result, raw)


def _whole(name: str, what: str, decode: Callable[[bytes], _D], raw: bytes) -> _D:
    try:
        return decode(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not a whole {what}: {error}") from error


def _if_capture(raw: bytes) -> Capture | None:
    """None if it is something else, or wrong: to say what takes another look."""
    with _no_garbage():
        try:
            return _capture(raw)
        except (ValueError, RecursionError):
            return None


def _capture(raw: bytes) -> Capture:
    capture = msgspec.json.decode(raw, type=Capture)
    if capture.schema != SCHEMA:
        raise ValueError(f"its schema is {capture.schema}")
    _check_numbers(capture)
    _check_meaning(capture)
    return capture


def _lab_result(raw: bytes) -> "Result":
    from .lab.result import Result

    result = msgspec.json.decode(raw, type=Result)
    _check_numbers(msgspec.structs.replace(result, findings=[]))
    # Of a difference a bound may be below 0
    _find_fault(msgspec.to_builtins(result.findings), "$.findings", -_MOST)
    _check_probes(result.probes)
    datetime.fromisoformat(result.started)
    return result


def _name(path: Path | str) -> str:
    return "stdin" if str(path) == "-" else str(path)


def _read(path: Path | str) -> bytes:
    name = _name(path)
    try:
        with _opened(path) as file:
            raw = file.read()
    except FileNotFoundError as error:
        raise UsageError(f"{name}: no such file") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {reason(error)}") from error
    try:
        _check_keys(name, raw)
    except (ValueError, RecursionError) as error:
        _schema(name, raw)  # which says it better
        raise UsageError(f"{name} is not a whole capture: {error}") from error
    return raw


def _opened(path: Path | str) -> BinaryIO:
    """A stream of one's own, or a regular file: nothing else that a name may be is waited for."""
    if str(path) == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return sys.stdin.buffer
    number = output_stream.descriptor(path)
    if number is not None:
        return open(number, "rb", closefd=False)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        os.close(handle)
        words = f"{path} is no file; for what somebody writes into it: pgtrace report - < {path}"
        raise UsageError(words)
    return os.fdopen(handle, "rb")


def _check_keys(name: str, raw: bytes) -> None:
    """Raise UsageError for a key that an object has twice: each reader would take another.

    Raises ValueError or RecursionError for what is no JSON.
    """

    def look(members: list[tuple[str, object]]) -> None:
        if len(dict(members)) != len(members):
            keys = [key for key, _ in members]
            again = next(key for at, key in enumerate(keys) if key in keys[:at])
            raise UsageError(f"{name} is not to be trusted: it has the key {again[:80]!r} twice")

    with _no_garbage():
        json.loads(raw.decode(), object_pairs_hook=look)  # which keeps nothing of it


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Nothing in the block is any, and to look for some takes as long as all the rest."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


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


def _check_numbers(value: Any, path: str = "$") -> None:
    """Raise ValueError for a number that counts nothing: all but a query_id count something."""
    if not _all_count(value):
        _find_fault(msgspec.to_builtins(value, enc_hook=plain), path)


def _all_count(value: Any) -> bool:
    if isinstance(value, msgspec.Struct):
        numbers, others = _members(type(value))
        for name in numbers:
            number = getattr(value, name)
            if number is not None and not 0 <= number <= _MOST:
                return False
        return all(_all_count(getattr(value, name)) for name in others)
    if isinstance(value, dict):
        return all(map(_all_count, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_all_count, value))
    return not isinstance(value, (int, float)) or 0 <= value <= _MOST


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
    """Raise ValueError for what measured nothing."""
    if not probes.operations:
        raise ValueError("no operation was measured - at `$.probes.operations`")


def _check_meaning(capture: Capture) -> None:
    """Raise ValueError where the parts of a capture contradict each other."""
    _check_probes(capture.probes)
    datetime.fromisoformat(capture.started)
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
