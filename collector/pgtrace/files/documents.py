"""Captures and lab results as files: read and checked, or written."""

import errno
import gc
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import msgspec

from .. import sudo
from ..errors import UsageError, reason
from ..model.capture import SCHEMA, Capture
from ..model.decoding import decode_capture
from ..model.encoding import encode, is_text_of
from . import output_file, output_stream

if TYPE_CHECKING:
    from ..model.lab_result import Result

_D = TypeVar("_D")
_LAB_SCHEMA = "pgtrace.lab/2"
"""lab_result.SCHEMA, which is not imported for a capture."""
_OLD = {"pgtrace.capture/1", "pgtrace.lab/1"}
_CAPTURES = "pgtrace.capture/"


def load(path: Path | str) -> Capture:
    """Read a capture from a file, or from stdin if `path` is "-".

    Raises UsageError if it cannot be read, is no capture, or contradicts itself.
    """
    name, raw = _name(path), _read(path)
    if capture := _if_capture(name, raw):
        return capture
    schema = _schema(name, raw)
    if not schema.startswith(_CAPTURES):
        raise UsageError(f"{name} is the result of a lab experiment, not a capture ({schema})")
    return _whole(name, schema, decode_capture, raw)


def load_any(path: Path | str, decode_result: "Callable[[bytes], Result]") -> "Capture | Result":
    """Read a capture or a lab result, as load(); the laboratory knows what is in the latter."""
    name, raw = _name(path), _read(path)
    if capture := _if_capture(name, raw):
        return capture
    schema = _schema(name, raw)
    if schema.startswith(_CAPTURES):
        return _whole(name, schema, decode_capture, raw)
    return _whole(name, schema, decode_result, raw)


def _whole(name: str, schema: str, decode: Callable[[bytes], _D], raw: bytes) -> _D:
    what = "capture" if schema.startswith(_CAPTURES) else "lab result"
    try:
        if schema in _OLD:
            from ..model.upgrade import upgraded  # few files need it

            raw = msgspec.json.encode(upgraded(msgspec.json.decode(raw)))
        return decode(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not a whole {what}: {error}") from error


def _if_capture(name: str, raw: bytes) -> Capture | None:
    """None if it is something else, or wrong: to say what takes another look.

    Raises UsageError for a key that is there twice, and for what is no JSON.
    """
    with _no_garbage():
        capture = _decoded(raw)
        if capture and _is_own_text(capture, raw):
            return capture  # to look through the keys of a large one takes as long as the rest
        whole, capture = capture is not None, None  # in memory there is room for it or its keys
        _check_keys(name, raw)
        return _decoded(raw) if whole else None


def _decoded(raw: bytes) -> Capture | None:
    try:
        return decode_capture(raw)
    except (ValueError, RecursionError):
        return None


def _is_own_text(capture: Capture, raw: bytes) -> bool:
    try:
        return is_text_of(capture, raw)
    except (ValueError, OverflowError):  # a number that is too long to be written
        return False


def _name(path: Path | str) -> str:
    return "stdin" if str(path) == "-" else str(path)


def _read(path: Path | str) -> bytes:
    name = _name(path)
    try:
        with _opened(path) as file:
            return file.read()
    except FileNotFoundError as error:
        raise UsageError(f"{name}: no such file") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {reason(error)}{_as_its_owner(error)}") from error


def _as_its_owner(error: Exception) -> str:
    """What root has captured is root's alone."""
    if not isinstance(error, PermissionError) or os.geteuid() == 0:
        return ""
    return f". It is for its owner alone; if that is root, type: {sudo.as_root()}"


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
        raise UsageError(
            f"{path} is no file; for what somebody writes into it name - in its place, as in "
            f"pgtrace report - < {path}"
        )
    return os.fdopen(handle, "rb")


def _check_keys(name: str, raw: bytes) -> None:
    """Raise UsageError for a key that an object has twice: each reader would take another; and for
    what is no JSON.
    """

    def look(members: list[tuple[str, object]]) -> None:
        seen = set[str]()
        for key, _ in members if len(dict(members)) != len(members) else ():
            if key in seen:
                raise UsageError(f"{name} is not to be trusted: it has the key {key[:80]!r} twice")
            seen.add(key)

    try:
        json.loads(raw.decode(), object_pairs_hook=look)  # which keeps nothing of it
    except (ValueError, RecursionError) as error:
        _schema(name, raw)  # which says it better
        raise UsageError(f"{name} is not a whole capture: {error}") from error


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
    if schema is None or schema not in {SCHEMA, _LAB_SCHEMA, *_OLD}:
        raise UsageError(f"{name} is a {schema}; this pgtrace reads /1 and /2: upgrade pgtrace")
    return schema


def write(capture: Capture, path: Path | str, force: bool = False) -> None:
    """Write the capture, for its owner alone; there is never half a file under its name.

    Raises UsageError if it cannot be written there, or exists and `force` is not given.
    """
    output_file.write(encode(capture), path, force)
