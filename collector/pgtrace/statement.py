"""Query text made fit to travel and to print: literals out, control characters harmless.

The rules are those of PostgreSQL's scanner (src/backend/parser/scan.l), as far as they decide
where a literal, an identifier or a comment ends.
"""

import codecs
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

ELLIPSIS = "…"
UNPARSED = re.compile(r"<unparsed [0-9a-f]{12}>")
MOST_PARAMETERS = 65535
"""The protocol has 16 bits for their number; longer numbers after $ are somebody's data."""

_TOKENS = re.compile(
    r"""
      (?P<space>   [ \t\n\r\f\v]+ | --[^\n\r]* )
    | (?P<comment> /\* )
    | (?P<escaped> [eE]' )
    | (?P<plain>   (?: [uU]& | [bBxXnN] )?' )
    | (?P<quoted>  (?: [uU]& )?" )
    | (?P<dollar>  \$ (?: [A-Za-z_\x80-\U0010ffff] [A-Za-z0-9_\x80-\U0010ffff]* )? \$ )
    | (?P<param>   \$[0-9]+ )
    | (?P<name>    [A-Za-z_\x80-\U0010ffff] [A-Za-z0-9_$\x80-\U0010ffff]* )
    | (?P<range>   \.\. )
    | (?P<number>  (?: [0-9][0-9_]* (?: \. (?!\.) [0-9_]* )? | \.[0-9][0-9_]* )
                   (?: [eE][+-]?[0-9]+ )? [A-Za-z0-9_\x80-\U0010ffff]* )
    | (?P<other>   . )
    """,
    re.VERBOSE | re.DOTALL,
)
_END = {
    "escaped": re.compile(r"(?:[^'\\]|\\.|'')*+'", re.DOTALL),
    "plain": re.compile(r"(?:[^']|'')*+'"),
    "quoted": re.compile(r'(?:[^"]|"")*+"'),
}
# A literal goes on, by the rules that it began with, after a line break.
_CONTINUED = re.compile(r"(?:[ \t\f\v]|--[^\n\r]*)*+[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*+'")
_JOINING = re.compile(r"[A-Za-z0-9_$\x80-\U0010ffff]")
_COMMENT = re.compile(r"/\*|\*/")


class _Token(NamedTuple):
    kind: str
    start: int
    end: int


class _Unterminated(Exception):  # noqa: N818 - it is caught where it is raised
    """The text ends inside a literal, a quoted identifier or a comment."""


def _end(text: str, kind: str, position: int) -> int:
    """Return where the literal, identifier or comment whose content begins at `position` ends."""
    if kind == "comment":
        depth = 1
        for mark in _COMMENT.finditer(text, position):
            depth += 1 if mark[0] == "/*" else -1
            if depth == 0:
                return mark.end()
        raise _Unterminated
    while True:
        end = _END[kind].match(text, position)
        if end is None:
            raise _Unterminated
        more = _CONTINUED.match(text, end.end()) if kind != "quoted" else None
        if more is None:
            return end.end()
        position = more.end()


def _scan(text: str, cut: bool, backslashes: bool) -> Iterator[_Token]:
    """Split `text`; `backslashes` reads '..' as standard_conforming_strings = off does.

    Raises _Unterminated unless the text was `cut`: then the last token is of kind "cut".
    """
    position = 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None or match.lastgroup is None:
            raise AssertionError("any character is a token")
        kind, end = match.lastgroup, match.end()
        try:
            if kind in ("comment", "escaped", "quoted"):
                end = _end(text, kind, end)
            elif kind == "plain":
                bare = backslashes and match[0] in ("'", "n'", "N'")
                end = _end(text, "escaped" if bare else "plain", end)
            elif kind == "dollar":
                found = text.find(match[0], end)
                if found < 0:
                    raise _Unterminated
                end = found + len(match[0])
            elif kind == "param" and (len(match[0]) > 6 or int(match[0][1:]) > MOST_PARAMETERS):
                kind = "number"
        except _Unterminated:
            if not cut:
                raise
            yield _Token("cut", position, len(text))
            return
        yield _Token(kind, position, end)
        position = end


def _tokens(text: str, cut: bool) -> list[_Token] | None:
    """Return the tokens of `text`; None if it has none, or if they depend on a server's setting.

    Whether a backslash escapes a quote is standard_conforming_strings, which is not known here.
    """
    readings: list[list[_Token]] = []
    for backslashes in (False, True):
        try:
            tokens = list(_scan(text, cut, backslashes))
        except _Unterminated:
            continue
        if tokens not in readings:
            readings.append(tokens)
    return readings[0] if len(readings) == 1 else None


def redact(text: str, cut: bool) -> str:
    """Replace the literals of a statement by $n, counted on from its own parameters.

    Comments go, white space becomes single spaces. `cut` says that the text ends too early: a
    literal that it ends in is lost, and "…" marks the end. What cannot be told apart for certain
    becomes "<unparsed HASH>", 12 digits of its SHA-256. Nothing is raised.
    """
    if UNPARSED.fullmatch(text):
        return text
    tokens = None if "\0" in text else _tokens(text, cut)
    if tokens is None:
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"<unparsed {digest[:12]}>"
    last = max((int(text[s + 1 : e]) for kind, s, e in tokens if kind == "param"), default=0)
    out = ""
    space = False
    for kind, start, end in tokens:
        if kind in ("space", "comment"):
            space = True
            continue
        if kind == "cut":
            break
        if kind in ("escaped", "plain", "dollar", "number"):
            last += 1
            token = f"${last}"
            # abc'x' must not become the identifier abc$1, nor $'x' the quote $$.
            space = space or _JOINING.match(out[-1:]) is not None
        else:
            token = text[start:end]
        out += f" {token}" if space and out else token
        space = False
    if cut and not out.endswith(ELLIPSIS):
        out += f" {ELLIPSIS}" if space and out else ELLIPSIS
    return out


_UNSAFE = re.compile(
    # C0, DEL and C1; marks and overrides of direction; separators of lines; halves of pairs.
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape(text: str, *, lines: bool = False) -> str:
    r"""Make `text` harmless to a terminal: \x1b, \u202e in place of what would act on it.

    On one line, a run of line breaks and tabs becomes a space; with `lines` they are kept.
    """
    if not lines:
        text = re.sub(r"(?:\r?\n|\t)+", " ", text)

    def shown(match: re.Match[str]) -> str:
        code = ord(match[0])
        if lines and match[0] in "\n\t":
            return match[0]
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return _UNSAFE.sub(shown, text)


def decode(raw: bytes, cut: bool = False, errors: str = "backslashreplace") -> str:
    r"""Read bytes as UTF-8; those that are not are shown as \xff.

    Of a text that was `cut`, part of a character at its end is left out.
    """
    return codecs.utf_8_decode(raw, errors, not cut)[0]


_FNV_BASIS, _FNV_PRIME, _WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_NOT_PLAIN = re.compile(rb'["$\\]|--|/\*')
_LITERAL = re.compile(rb"'[^']*(?:'|\Z)|(?<![A-Za-z0-9_\x80-\xff])[0-9][0-9.]*")


def text_hash(text: bytes) -> int:
    """FNV-1a of a text without its numbers and strings; of the whole, if more than quotes decide
    what a literal is. The kernel does the same (text_hash in bpf/hash.bpf.h).
    """
    if not _NOT_PLAIN.search(text):
        text = _LITERAL.sub(_marked, text)
    value = _FNV_BASIS
    for byte in text:
        value = (value ^ byte) * _FNV_PRIME & _WORD
    return value


def _marked(literal: re.Match[bytes]) -> bytes:
    if literal[0][:1] != b"'":
        return b"0"
    return b"''" if literal[0].endswith(b"'") and len(literal[0]) > 1 else b"'"
