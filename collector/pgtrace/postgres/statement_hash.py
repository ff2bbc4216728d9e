"""Hashes by which statements are told apart."""

import re
from collections.abc import Iterable

_FNV_BASIS, _FNV_PRIME, _WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_NOT_PLAIN = re.compile(rb'["$\\]|--|/\*')
_LITERAL = re.compile(rb"'[^']*(?:'|\Z)|(?<![A-Za-z0-9_\x80-\xff])[0-9][0-9.]*")


def text_hash(text: bytes) -> int:
    """FNV-1a of a text without its numbers and strings; of the whole, if more than quotes decide
    what a literal is. The kernel does the same (text_hash in bpf/hash.bpf.h).
    """
    return fnv1a(text if _NOT_PLAIN.search(text) else _LITERAL.sub(_marked, text))


def fnv1a(symbols: Iterable[int]) -> int:
    """Hash bytes (http://www.isthe.com/chongo/tech/comp/fnv/)."""
    value = _FNV_BASIS
    for symbol in symbols:
        value = (value ^ symbol) * _FNV_PRIME & _WORD
    return value


def _marked(literal: re.Match[bytes]) -> bytes:
    if literal[0][:1] != b"'":
        return b"0"
    return b"''" if literal[0].endswith(b"'") and len(literal[0]) > 1 else b"'"
