"""PostgreSQL's scanner (src/backend/parser/scan.l), as far as it decides where a literal, an
identifier or a comment ends.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

_END = {
    "escaped": re.compile(r"(?:[^'\\]|\\.|'')*+'", re.DOTALL),
    "plain": re.compile(r"(?:[^']|'')*+'"),
    "quoted": re.compile(r'(?:[^"]|"")*+"'),
}
# A literal goes on, by the rules that it began with, after a line break.
_CONTINUED = re.compile(r"(?:[ \t\f\v]|--[^\n\r]*)*+[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*+'")
_COMMENT = re.compile(r"/\*|\*/")
_OPENING = frozenset("+-*/(,=<>[")
"""What a minus may follow that is a number's sign, and no subtraction."""


class Token(NamedTuple):
    """A piece of a text; of a literal, a quoted name or a comment perhaps only its beginning."""

    kind: str
    start: int
    end: int
    complete: bool = True


@cache
def _tokens() -> re.Pattern[str]:
    """Made once a text is scanned: a fortieth of what it takes to start, and that may scan none."""
    return re.compile(
        r"""
          (?P<space>   [ \t\n\r\f\v]+ | --[^\n\r]* )
        | (?P<comment> /\* )
        | (?P<escaped> [eE]' )
        | (?P<plain>   (?: [uU]& | [bBxXnN] )?' )
        | (?P<quoted>  (?: [uU]& )?" )
        | (?P<dollar>  \$ (?: [A-Za-z_\x80-\U0010ffff] [A-Za-z0-9_\x80-\U0010ffff]* )? \$ )
        | (?P<param>   \$[0-9]+ )
        | (?P<tag>     \$[A-Za-z_\x80-\U0010ffff] [A-Za-z0-9_\x80-\U0010ffff]* )
        | (?P<name>    [A-Za-z_\x80-\U0010ffff] [A-Za-z0-9_$\x80-\U0010ffff]* )
        | (?P<range>   \.\. )
        | (?P<number>  (?: [0-9][0-9_]* (?: \. (?!\.) [0-9_]* )? | \.[0-9][0-9_]* )
                       (?: [eE][+-]?[0-9]+ )? [A-Za-z0-9_\x80-\U0010ffff]* )
        | (?P<other>   . )
        """,
        re.VERBOSE | re.DOTALL,
    )


def _end(text: str, kind: str, position: int) -> int:
    """Return where the literal, identifier or comment whose content begins at `position` ends;
    0 if it does not.
    """
    if kind == "comment":
        depth = 1
        for mark in _COMMENT.finditer(text, position):
            depth += 1 if mark[0] == "/*" else -1
            if depth == 0:
                return mark.end()
        return 0
    while True:
        end = _END[kind].match(text, position)
        if end is None:
            return 0
        more = _CONTINUED.match(text, end.end()) if kind != "quoted" else None
        if more is None:
            return end.end()
        position = more.end()


def scan(text: str, *, escapes: bool) -> Iterator[Token]:
    """Split a text; with `escapes`, '..' is read as with standard_conforming_strings = off.

    Kinds: space, comment, name, quoted, param, range, number, other, and tag, of a dollar quote
    that does not begin, which is an error everywhere; escaped, plain and dollar are strings. Only
    the last token can be incomplete.
    """
    position, tokens = 0, _tokens()
    while position < len(text):
        match = tokens.match(text, position)
        if match is None or match.lastgroup is None:
            raise AssertionError("any character is a token")
        kind, end = match.lastgroup, match.end()
        if kind in ("comment", "escaped", "quoted"):
            end = _end(text, kind, end)
        elif kind == "plain":
            bare = escapes and match[0] in ("'", "n'", "N'")
            end = _end(text, "escaped" if bare else "plain", end)
        elif kind == "dollar":
            found = text.find(match[0], end)
            end = 0 if found < 0 else found + len(match[0])
        yield Token(kind, position, end or len(text), complete=end > 0)
        position = end or len(text)


def both_readings(text: str) -> tuple[list[Token], list[Token]]:
    """Without and with `escapes`, where it is not known which holds: a setting of the session. With
    no backslash in the text they are the same list.
    """
    standard = list(scan(text, escapes=False))
    return standard, list(scan(text, escapes=True)) if "\\" in text else standard


def signs(tokens: Sequence[Token], text: str) -> set[int]:
    """Where the minuses begin that are a part of the number behind them: in `(-5` and `a + -5`.

    To pg_stat_statements a negative number is one constant (fill_in_constant_lengths() in
    contrib/pg_stat_statements/pg_stat_statements.c), so that it is the same statement with a
    positive one. Behind a word, as in `select -5`, it is not known which the minus is.
    """
    found = set()
    before = None
    for token, after in pairwise(tokens):
        if token.kind == "space" and not text.startswith("--", token.start):
            continue
        begins = before is not None and before.kind == "other" and text[before.start] in _OPENING
        number = after.kind == "number" and text[after.start] in "0123456789"
        if begins and number and token.kind == "other" and text[token.start] == "-":
            found.add(token.start)
        before = token
    return found
