"""A hash by which statements are told apart that differ in more than literals and comments."""

from collections.abc import Iterable

from .tokens import Token, both_readings, signs

_FNV_BASIS, _FNV_PRIME, _WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_AFTER_SPACE, _LITERAL, _RANGE = 0x100, 0x400, 0x800
"""What a symbol may be, or hold, beside a byte."""
_INCOMPLETE, _EITHER = 1, 2


def text_hash(text: bytes, cut: bool = False) -> int:
    """FNV-1a of a text's symbols: each byte that is in no literal and no comment, with a bit if
    white space comes before it, and one for a literal, which the sign of a number is part of. The
    kernel does the same (text_hash in bpf/hash.bpf.h).

    Whether backslashes escape in '..' is a setting of the session. Where it matters, that reading
    is taken by which the text comes to an end; if both do, or none, or if the text was `cut`, the
    hash is that of the whole text. What has no text without literals has a hash of its own.
    """
    # Bytes beyond ASCII are letters, whatever the encoding is
    readable = text.decode("latin-1")
    standard, escaped = both_readings(readable)
    if standard == escaped:
        mark = 0 if cut or _is_complete(standard) else _INCOMPLETE
        return fnv1a(_symbols(text, standard)) ^ mark
    if cut or _is_complete(standard) == _is_complete(escaped):
        return fnv1a(text)
    return fnv1a(_symbols(text, standard if _is_complete(standard) else escaped)) ^ _EITHER


def _is_complete(tokens: list[Token]) -> bool:
    return not tokens or tokens[-1].complete


def _symbols(text: bytes, tokens: list[Token]) -> list[int]:
    symbols: list[int] = []
    space = _AFTER_SPACE
    left_out = signs(tokens, text.decode("latin-1"))
    for kind, start, end, _ in tokens:
        if kind in ("space", "comment"):
            space = _AFTER_SPACE
            continue
        if start in left_out:
            continue
        if kind in ("escaped", "plain", "dollar", "number"):
            symbols.append(_LITERAL)
        elif kind == "range":
            symbols.append(_RANGE)
        else:
            symbols += [text[start] | space, *text[start + 1 : end]]
        space = 0
    return symbols


def fnv1a(symbols: Iterable[int]) -> int:
    """Hash bytes, or what else is less than 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/)."""
    value = _FNV_BASIS
    for symbol in symbols:
        value = (value ^ symbol) * _FNV_PRIME & _WORD
    return value
