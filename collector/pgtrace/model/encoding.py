"""Captures and lab results as JSON."""

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from .buckets import Buckets, plain
from .capture import Capture

if TYPE_CHECKING:
    from .lab_result import Result

_HELD = "@"
"""In the place of buckets, until a document is formatted."""


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
