"""Where symbols of an ELF file are, of which only so much is read, whatever its headers name.

Run where elf.py is: the file may be anybody's, and made to mislead.
"""

import os
import struct
from collections.abc import Collection, Iterator

MOST_BYTES = 32 << 20
"""Read of a file, once in search of its version and once by what its headers name."""
_MOST_STEPS = 1024
"""From one symbol to the next of the same hash: a server's has at most ten."""
_SYMBOL = "=IBBHQQ"  # Elf64_Sym, include/uapi/linux/elf.h
_SYMBOL_SIZE = struct.calcsize(_SYMBOL)
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 4, 5, 6, 0x6FFFFEF5

Load = tuple[int, int, int]  # address, size, offset


class Ranges:
    """An open file. Every way to read it raises ValueError beyond its end, or MOST_BYTES in all."""

    def __init__(self, file: int) -> None:
        self._file, self._left = file, MOST_BYTES

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the file."""
        data = self.most(offset, size)
        if len(data) < size:
            raise ValueError("it ends before what its headers name")
        return data

    def most(self, offset: int, size: int) -> bytes:
        """The same, but fewer bytes where the file ends."""
        if not 0 <= size <= self._left:
            raise ValueError("its headers name more than a program has")
        self._left -= size
        return os.pread(self._file, size, offset)

    def unpack(self, form: str, offset: int) -> tuple[int, ...]:
        """Numbers, as struct has them."""
        return struct.unpack(form, self.read(offset, struct.calcsize(form)))

    def table(self, form: str, offset: int, count: int) -> Iterator[tuple[int, ...]]:
        """As many rows of them."""
        return struct.iter_unpack(form, self.read(offset, struct.calcsize(form) * count))


def offset_of(loads: Collection[Load], address: int) -> int | None:
    """Where in the file an address lies; None if in none of its segments."""
    for start, size, offset in loads:
        if start <= address < start + size:
            return address - start + offset
    return None


def tags(file: Ranges, dynamic: tuple[int, int]) -> dict[int, int]:
    """What the dynamic segment, which has this offset and size, tells: values by tags."""
    offset, size = dynamic
    return {tag: value for tag, value in file.table("=QQ", offset, size // 16)}  # noqa: C416


def of_segment(
    file: Ranges, dynamic: tuple[int, int], loads: Collection[Load], names: Collection[str]
) -> dict[str, int]:
    """Addresses of those that the hash table of the dynamic symbols leads to."""
    told = tags(file, dynamic)
    places = {
        tag: place
        for tag in (_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH)
        if tag in told and (place := offset_of(loads, told[tag])) is not None
    }
    if not {_DT_STRTAB, _DT_SYMTAB} <= places.keys():
        return {}
    found = {}
    for name in names:
        wanted = name.encode()
        if _DT_GNU_HASH in places:
            candidates = _by_gnu_hash(file, places[_DT_GNU_HASH], wanted)
        elif _DT_HASH in places:
            candidates = _by_hash(file, places[_DT_HASH], wanted)
        else:
            break
        for number in candidates:
            at = places[_DT_SYMTAB] + number * _SYMBOL_SIZE
            word, _, _, section, address, _ = file.unpack(_SYMBOL, at)
            if section and file.read(places[_DT_STRTAB] + word, len(wanted) + 1) == wanted + b"\0":
                found[name] = address
                break
    return found


def of_section(
    file: Ranges, table: tuple[int, ...], strings: tuple[int, ...], names: Collection[str]
) -> dict[str, int]:
    """Addresses of those in a table that no hash leads into; it and its strings: offset, size."""
    words = file.read(*strings)
    wanted = {}
    for name in names:
        at = words.find(name.encode() + b"\0")
        while at >= 0:
            wanted[at] = name
            at = words.find(name.encode() + b"\0", at + 1)
    return {
        wanted[word]: address
        for word, _, _, section, address, _ in file.table(
            _SYMBOL, table[0], table[1] // _SYMBOL_SIZE
        )
        if section and word in wanted
    }


def _by_gnu_hash(file: Ranges, at: int, name: bytes) -> Iterator[int]:
    """Numbers of the symbols that may be it: https://flapenguin.me/elf-dt-gnu-hash"""
    hashed = 5381
    for byte in name:
        hashed = (hashed * 33 + byte) & 0xFFFFFFFF
    buckets, first, blooms, _ = file.unpack("=IIII", at)
    at += 16 + 8 * blooms
    (number,) = file.unpack("=I", at + hashed % buckets * 4)
    at += 4 * buckets
    for _ in range(_MOST_STEPS):
        if number < first:
            return
        (chained,) = file.unpack("=I", at + (number - first) * 4)
        if chained | 1 == hashed | 1:
            yield number
        if chained & 1:
            return
        number += 1


def _by_hash(file: Ranges, at: int, name: bytes) -> Iterator[int]:
    """The same by DT_HASH, of the System V ABI."""
    hashed = 0
    for byte in name:
        hashed = (hashed << 4) + byte
        hashed = (hashed ^ (hashed >> 24 & 0xF0)) & 0x0FFFFFFF
    buckets, _ = file.unpack("=II", at)
    (number,) = file.unpack("=I", at + 8 + hashed % buckets * 4)
    for _ in range(_MOST_STEPS):
        if number == 0:
            return
        yield number
        (number,) = file.unpack("=I", at + 8 + (buckets + number) * 4)
