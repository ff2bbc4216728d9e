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
_NAME = b'"buckets": '


def encode(document: "Capture | Result") -> bytes:
    """Return it as indented JSON, its schema first, each bucket on one line."""
    whole = io.BytesIO()  # grows where it is: parts that are joined would be there twice
    whole.writelines(encoded(document))
    return whole.getvalue()


def encoded(document: "Capture | Result") -> Iterator[bytes]:
    """The same in parts: of a large capture, one after the other takes a part of the memory."""
    return (_joined(*outline) for outline in _outlines(document))


def is_text_of(capture: Capture, raw: bytes) -> bool:
    """Whether that is what encode() makes of it, whatever the numbers in buckets.

    If the capture was decoded from it, no object in it has a key twice: none has where encode()
    wrote it, and between the brackets of buckets there is not even a quotation mark.
    """
    at = 0
    for texts, _ in _outlines(capture):
        for number, text in enumerate(texts):
            if number:
                within = raw[at : raw.find(b"}", at)]
                if not within.startswith(_NAME) or b'"' in within[len(_NAME) :]:
                    return False
                at += len(within.rstrip())
            if not raw.startswith(text, at):
                return False
            at += len(text)
    return at == len(raw)


def shown(value: Any) -> Any:
    r"""What is made of builtins, with bytes that are no UTF-8 as `\xff`."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {shown(key): shown(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(member) for member in value]
    return value


def _outlines(document: "Capture | Result") -> Iterator[tuple[list[bytes], list[Buckets]]]:
    """Of each part of the text, what stands around its buckets, and these."""
    backends = document.backends if isinstance(document, Capture) else []
    if isinstance(document, Capture):
        document = msgspec.structs.replace(document, backends=[])
    members = msgspec.to_builtins(document, enc_hook=plain)
    [text], _ = _outline({"schema": members.pop("schema"), **members})
    if not isinstance(document, Capture):
        # Strings hold no line breaks in JSON, so that only lists of three numbers can match.
        text = re.sub(rb"\[\n\s+(\d+),\n\s+(\d+),\n\s+(\d+)\n\s+\]", rb"[\1, \2, \3]", text)
    if backends:
        before, name, after = text.partition(b'"backends": [')
        yield [before + name], []
        for number, backend in enumerate(backends):
            texts, found = _outline(backend, 2)
            yield [(b",\n    " if number else b"\n    ") + texts[0], *texts[1:]], found
        text = b"\n  " + after
    yield [text + b"\n"], []


def _outline(value: Any, depth: int = 0) -> tuple[list[bytes], list[Buckets]]:
    """It as JSON of many lines, as it stands at that depth, cut where its buckets are.

    There is one more text than there are buckets.
    """
    found: list[Buckets] = []

    def hold(buckets: Buckets) -> str:
        found.append(buckets)
        return _HELD

    try:
        raw = msgspec.json.encode(value, enc_hook=hold)
    except UnicodeEncodeError:  # a path that is not UTF-8, such as a data directory's
        found.clear()
        raw = msgspec.json.encode(shown(msgspec.to_builtins(value, enc_hook=hold)))
    opening, closing = b"[" * depth, b"]" * depth
    before, after = map(len, msgspec.json.format(opening + b"0" + closing, indent=2).split(b"0"))
    text = msgspec.json.format(opening + raw + closing, indent=2)
    text = text[before : len(text) - after]
    # In a string, quotation marks would not be bare
    return text.split(b'%b"%b"' % (_NAME, _HELD.encode())), found


def _joined(texts: list[bytes], found: list[Buckets]) -> bytes:
    parts = texts[:1]
    for text, buckets in zip(texts[1:], found, strict=True):
        indent = parts[-1].rpartition(b"\n")[2].decode()
        parts += [_NAME, buckets.lines(indent), text]
    return b"".join(parts)
