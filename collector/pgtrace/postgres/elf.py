"""What a binary holds, found by whoever parses it: a child without privileges, see program.py.

Nothing here may be trusted to end, nor what it finds to be true: the file may be anybody's.
pyelftools, which read it before, builds an object of each entry of the hash tables, four times
over: 110 ms for a server, where the few bytes that are needed take one.
Addresses are those of the ELF file; offsets are bytes from the start of the file.
"""

import os
import re
import struct
import sys
from collections.abc import Collection, Iterator
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from . import entry, submission, symbols
from .symbols import MOST_BYTES, Load, Ranges, offset_of

PROVIDER = "postgresql"
_PT_LOAD, _PT_DYNAMIC, _SHT_SYMTAB = 1, 2, 2  # include/uapi/linux/elf.h
_X86_64 = 62  # EM_X86_64, include/uapi/linux/elf-em.h
_VERSION = re.compile(rb"postgres \([\w ]{1,64}\) (\d{1,4}(?:\.\d{1,4}|(?:devel|alpha|beta|rc)\d{0,4})?)")  # fmt: skip # noqa: E501
_SERVER_SYMBOL = b"\0PostmasterMain\0"  # pg_ctl and initdb hold the version, too

_Offset = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Address = Annotated[int, Meta(ge=0)]  # msgspec's own bound is that of 64 bits
_Word = Annotated[str, Meta(max_length=64)]
_Load = tuple[_Address, _Address, _Address]  # address, size, offset


class Site(Struct, frozen=True):
    """One place where a USDT probe fires; a probe may have several."""

    name: Annotated[str, Meta(max_length=256)]
    offset: _Offset
    semaphore: _Offset | None
    """Offset of the counter that arms the site (`ref_ctr_offset`); None when it is always armed."""
    arguments: Annotated[str, Meta(max_length=1024)]
    """As the note has them, such as `8@%rax -4@$1`."""


class Kind(Struct, frozen=True):
    """Whether a file is PostgreSQL's server."""

    server: bool = False
    version: Annotated[str, Meta(max_length=32, pattern=r"^[0-9a-z.]*$")] = ""
    """Such as `15.18`; empty if the file does not say."""


class Contents(Struct, frozen=True):
    """What its headers lead to."""

    problem: Annotated[str, Meta(max_length=256)] = ""
    """Why nothing of it is known."""
    elfclass: int = 0
    machine: int = 0
    """As EM_X86_64, see include/uapi/linux/elf-em.h."""
    entry: _Address = 0
    loads: Annotated[list[_Load], Meta(max_length=256)] = []
    sites: Annotated[list[Site], Meta(max_length=4096)] = []
    addresses: Annotated[dict[_Word, _Address], Meta(max_length=256)] = {}
    """Of those symbols that were asked for, and that the file defines."""
    cheap: dict[_Word, _Offset] = {}
    """Where in the file a probe at the entry of such a function costs little: see entry.py."""
    submission: _Offset | None = None
    """Where in it a probe sees what is handed to I/O workers: see submission.py."""


class _Section(NamedTuple):
    name: int
    kind: int
    address: int
    offset: int
    size: int
    link: int


def kind(file: int) -> Kind:
    """Tell by the bytes of an open file, whatever their order, whether it is the server."""
    data = os.pread(file, MOST_BYTES, 0)
    if data.find(_SERVER_SYMBOL) < 0:
        return Kind()
    match = _VERSION.search(data, max(data.find(b"postgres (PostgreSQL) "), 0))
    return Kind(server=True, version=match[1].decode() if match else "")


def contents(file: int, names: Collection[str]) -> Contents:
    """Parse an open file. Raise anything at all, should it be made to that end.

    Of a program of another architecture only that is told.
    """
    read = Ranges(file)
    ident = read.read(0, 16)
    if ident[:4] != b"\x7fELF":
        raise ValueError("no ELF file")
    elfclass, order = 32 * ident[4], ">" if ident[5] == 2 else "<"
    (machine,) = read.unpack(f"{order}H", 18)
    if elfclass != 64 or (order == "<") != (sys.byteorder == "little"):
        return Contents(elfclass=elfclass, machine=machine)
    # Elf64_Ehdr, Elf64_Phdr, Elf64_Shdr of include/uapi/linux/elf.h
    start, segments_at, sections_at, *_, segments, _, sections, strings = read.unpack(
        "=24xQQQIHHHHHH", 0
    )
    loads, dynamic = [], None
    for kind, _, offset, address, _, size, _, _ in read.table("=IIQQQQQQ", segments_at, segments):
        if kind == _PT_LOAD:
            loads.append((address, size, offset))
        elif kind == _PT_DYNAMIC:
            dynamic = offset, size
    table = [_Section(*each) for each in read.table("=II8xQQQI20x", sections_at, sections)]
    addresses = _addresses(read, dynamic, table, loads, names)
    return Contents(
        elfclass=elfclass,
        machine=machine,
        entry=start,
        loads=loads,
        sites=list(_sites(read, _named(read, table, strings), loads)),
        addresses=addresses,
        cheap=_cheap(read, machine, loads, addresses),
        submission=_submission(read, machine, dynamic, loads, addresses),
    )


def _cheap(
    read: Ranges, machine: int, loads: list[Load], addresses: dict[str, int]
) -> dict[str, int]:
    found = {}
    for name, address in addresses.items() if machine == _X86_64 else ():
        offset = offset_of(loads, address)
        if offset is not None:
            step = entry.place(read.most(offset, entry.MOST_CODE), name)
            if step is not None:
                found[name] = offset + step
    return found


def _submission(
    read: Ranges,
    machine: int,
    dynamic: tuple[int, int] | None,
    loads: list[Load],
    addresses: dict[str, int],
) -> int | None:
    if machine != _X86_64:
        return None
    return submission.probe_offset(read, dynamic, loads, addresses)


def _named(read: Ranges, table: list[_Section], strings: int) -> dict[bytes, _Section]:
    if not table:
        return {}
    words = read.read(table[strings].offset, table[strings].size)
    return {_word(words, each.name): each for each in table}


def _word(words: bytes, at: int) -> bytes:
    return words[at : words.index(b"\0", at)]


def _addresses(
    read: Ranges,
    dynamic: tuple[int, int] | None,
    table: list[_Section],
    loads: list[Load],
    names: Collection[str],
) -> dict[str, int]:
    """Ask the hash table of the dynamic symbols, then, if need be, the debugger's table."""
    # The segment, not the sections .gnu.hash and .dynsym: it is there in a binary whose
    # section headers were stripped.
    found = symbols.of_segment(read, dynamic, loads, names) if dynamic else {}
    missing = set(names) - set(found)
    for section in table:
        if missing and section.kind == _SHT_SYMTAB:
            found |= symbols.of_section(read, section[3:5], table[section.link][3:5], missing)
    return found


def _sites(read: Ranges, named: dict[bytes, _Section], loads: list[Load]) -> Iterator[Site]:
    section, base = named.get(b".note.stapsdt"), named.get(b".stapsdt.base")
    if section is not None:
        data = read.read(section.offset, section.size)
        yield from _notes(data, base and base.address, loads)


def _notes(data: bytes, base_address: int | None, loads: list[Load]) -> Iterator[Site]:
    # The layout is SystemTap's: https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
    position = 0
    while position + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("=III", data, position)
        position += 12
        owner = data[position : position + name_size].rstrip(b"\0")
        position += (name_size + 3) & ~3
        note = data[position : position + size]
        position += (size + 3) & ~3
        if owner != b"stapsdt" or kind != 3 or len(note) < 24:
            continue
        address, base, semaphore = struct.unpack_from("=QQQ", note)
        provider, name, arguments, *_ = (*note[24:].split(b"\0"), b"", b"", b"")
        # prelink moves code and not the notes; the base tells by how much.
        offset = offset_of(loads, address + (base_address - base if base_address else 0))
        if provider == PROVIDER.encode() and offset is not None:
            yield Site(
                name.decode(),
                offset,
                offset_of(loads, semaphore) if semaphore else None,
                arguments.decode(),
            )
