"""Query text made fit to be kept: literals out, and what else is somebody's data."""

import os
import re
from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise

from ..terminal_text import ELLIPSIS, without_end
from .tokens import Token, both_readings, signs

UNPARSED = re.compile(r"<unparsed [0-9a-f]{12}>")
MOST_PARAMETERS = 65535
"""The protocol has 16 bits for their number; longer numbers after $ are somebody's data."""
_KEY = os.urandom(16)
"""Nobody can try passwords until the hash is the same."""
_STRINGS = frozenset({"escaped", "plain", "dollar"})
_LITERALS = _STRINGS | {"number", "value"}
_JOINING = re.compile(r"[A-Za-z0-9_$]|[^\x00-\x7f]")
_TYPES = frozenset(
    [
        "date",
        "time",
        "timetz",
        "timestamp",
        "timestamptz",
        "interval",
        "json",
        "jsonb",
        "inet",
        "uuid",
    ]
)
"""Words that do stand right before a quote: date'2020-01-01'."""
_NO_VALUES = frozenset(
    {"authorization", "constraints", "names", "role", "schema", "session"}
    | {"time", "transaction", "xml"}
)
"""What SET may be followed by that is no setting."""


def redact(text: str, cut: bool) -> str:
    """Replace the literals of a statement, with the signs of numbers, by $n, counted on from its
    own parameters; and what a setting is SET to, and what is given as a password, however it is
    written.

    Comments go, and the semicolon at the end, which pg_stat_statements leaves out as well; white
    space becomes single spaces. `cut` says that the text ends too early: a
    literal that it ends in is lost, and "…" marks the end. What cannot be told apart for certain
    becomes "<unparsed HASH>", the same for the same text in this process. Nothing is raised.
    """
    if UNPARSED.fullmatch(text):
        return text
    tokens = None if "\0" in text else _tokens(text, cut)
    if tokens is None:
        raw = text.encode("utf-8", "surrogatepass")
        return f"<unparsed {blake2b(raw, digest_size=6, key=_KEY).hexdigest()}>"
    tokens = [token for each in _statements(tokens, text) for token in _without_values(each, text)]
    left_out = signs(tokens, text)
    last = max((int(text[t.start + 1 : t.end]) for t in tokens if t.kind == "param"), default=0)
    out = ""
    space = False
    for kind, start, end, complete in tokens:
        if kind in ("space", "comment"):
            space = True
            continue
        if not complete:
            break
        if start in left_out:
            continue
        if kind in _LITERALS:
            last += 1
            token = f"${last}"
            # abc'x' must not become the identifier abc$1, nor $'x' the quote $$.
            space = space or _JOINING.match(out[-1:]) is not None
        else:
            token = text[start:end]
        out += f" {token}" if space and out else token
        space = False
    if not cut:
        return without_end(out)
    if not out.endswith(ELLIPSIS):
        out += f" {ELLIPSIS}" if space and out else ELLIPSIS
    return out


def _tokens(text: str, cut: bool) -> list[Token] | None:
    """Return the tokens of `text`; None if it has none, or if they depend on a server's setting.

    Whether a backslash escapes a quote is standard_conforming_strings, which is not known here. A
    text that one reading alone explains may as well be an error, and what is in none of its
    literals somebody's data.
    """
    standard, other = both_readings(text)
    if standard != other or _has_wrong_quote(standard, text) or _hides_quote(standard, text):
        return None
    if standard and not standard[-1].complete and not cut:
        return None
    return [_numbered(token, text) for token in standard]


def _numbered(token: Token, text: str) -> Token:
    """Nobody has that many parameters."""
    digits = text[token.start + 1 : token.end]
    if token.kind == "param" and (len(digits) > 5 or int(digits) > MOST_PARAMETERS):
        return token._replace(kind="number")
    return token


def _has_wrong_quote(tokens: list[Token], text: str) -> bool:
    """Whether a string touches a word, a number or another string: 'it's'.

    Then a quote in the middle may have been taken for its end, so that data is outside of it.
    """
    for one, other in pairwise(tokens):
        if one.kind in _STRINGS and other.kind in _STRINGS | {"name", "number", "quoted", "param"}:
            return True
        if other.kind in _STRINGS and one.kind in ("name", "number", "quoted", "tag"):
            word = text[one.start : one.end].lower()
            if one.kind != "name" or word not in _TYPES:
                return True
    return False


def _hides_quote(tokens: list[Token], text: str) -> bool:
    """Whether a comment has a quote without another, which may as well be the end of a string that
    nobody began: ;it --'. So `-- don't` costs a statement its text.
    """
    comments = (token for token in tokens if token.kind in ("space", "comment"))
    return any(text.count("'", token.start, token.end) % 2 for token in comments)


def _statements(tokens: list[Token], text: str) -> Iterator[list[Token]]:
    """Split at semicolons, each of which is its statement's last."""
    begin = 0
    for index, token in enumerate(tokens, 1):
        if token.kind == "other" and text[token.start] == ";":
            yield tokens[begin:index]
            begin = index
    yield tokens[begin:]


def _without_values(tokens: list[Token], text: str) -> list[Token]:
    """One statement, with a value in the place of all that a setting is SET to, or a password."""
    spaces = ("space", "comment")
    said = [(i, _word(token, text)) for i, token in enumerate(tokens) if token.kind not in spaces]
    while said and said[-1][1] in ("", ";"):
        said.pop()
    words = [word for _, word in said]
    first = _value(words)
    if first is None or words[first:] in ([], ["default"], ["param"]):
        return tokens
    begin, end = said[first][0], said[-1][0]
    value = Token("value", tokens[begin].start, tokens[end].end)
    return [*tokens[:begin], value, *tokens[end + 1 :]]


def _word(token: Token, text: str) -> str:
    """What it says, if it says more than what it is; nothing of the mark of a text's end."""
    if token.kind not in ("name", "other"):
        return token.kind
    return text[token.start : token.end].lower().removesuffix(ELLIPSIS)


def _value(words: list[str]) -> int | None:
    """Return where the value begins that a statement of these words gives; None if it gives none.

    It need not be one that a server takes: of an error the text is kept, too.
    """
    if words[:1] == ["set"]:
        begin = 2 if words[1:2] in (["session"], ["local"]) else 1
        end = _after_name(words, begin)
        if words[end : end + 1] in (["="], ["to"]):
            return end + 1
        return None if words[begin : begin + 1] and words[begin] in _NO_VALUES else end
    if words[:1] not in (["alter"], ["create"]):
        return None
    of_role = words[1:2] in (["role"], ["user"], ["group"])
    for index, word in enumerate(words, 1):
        if word == "set":
            end = _after_name(words, index)
            if words[end : end + 1] in (["="], ["to"]):
                return end + 1
        elif of_role and word in ("password", "by"):
            following = words[index : index + 1]
            if following and following[0] not in (_STRINGS | {"null", "param"}):
                return index
    return None


def _after_name(words: list[str], begin: int) -> int:
    """Return where the name of a setting ends: my.setting."""
    end = begin + 1
    while words[end : end + 1] == ["."]:
        end += 2
    return min(end, len(words))
