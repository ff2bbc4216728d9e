"""Where PostgreSQL 18 hands reads to its I/O workers: a function that no symbol names.

pgaio_submit_staged() calls it through a table, `pgaio_method_ops->submit(count, handles)`, and
that of the workers is pgaio_worker_ops (src/include/storage/aio_internal.h). Where in the table it
stands differs between versions, and is told by the call. Run where elf.py is.
"""

import re
import struct
import sys
from collections.abc import Collection, Mapping

from . import entry, symbols
from .symbols import Load, Ranges, offset_of

NAMES = ("pgaio_submit_staged", "pgaio_worker_ops")
"""The function that calls it, and the table."""
_CODE = 96
"""So many bytes of that function are looked at: the call is its only one through a register."""
_CALL = re.compile(rb"\xff[\x50-\x53\x55-\x57](.)", re.DOTALL)
"""`call *DISPLACEMENT(REGISTER)`, of which the displacement is one byte."""
_DT_RELA, _DT_RELASZ = 7, 8
_RELATIVE = 8  # R_X86_64_RELATIVE: all three are of the System V ABI
_RELOCATION = 24  # bytes of an Elf64_Rela, include/uapi/linux/elf.h
_POINTER = 8


def probe_offset(
    file: Ranges,
    dynamic: tuple[int, int] | None,
    loads: Collection[Load],
    addresses: Mapping[str, int],
) -> int | None:
    """Where in a file of x86-64 a probe goes that is to see that function called; None if it is
    not certain which it is. Raise ValueError as all that reads an ELF file.
    """
    calls, table = (addresses.get(name) for name in NAMES)
    at = None if calls is None else offset_of(loads, calls)
    if table is None or at is None or dynamic is None:
        return None
    found = _CALL.findall(file.most(at, _CODE))
    if len(found) != 1 or found[0][0] % _POINTER or found[0][0] >= 0x80:
        return None
    address = _pointer(file, dynamic, loads, table + found[0][0])
    function = offset_of(loads, address)
    if not address or function is None:
        return None
    step = entry.place(file.most(function, entry.MOST_CODE), "submit")
    return function + (step or 0)


def _pointer(file: Ranges, dynamic: tuple[int, int], loads: Collection[Load], address: int) -> int:
    """What stands at an address once the program was loaded; 0: nothing that is known."""
    tags = symbols.tags(file, dynamic)
    at = offset_of(loads, tags.get(_DT_RELA, 0))
    if at is not None:
        data = file.read(at, tags.get(_DT_RELASZ, 0))
        wanted = struct.pack("=QQ", address, _RELATIVE)
        found = data.find(wanted)
        while found >= 0:
            if found % _RELOCATION == 0:
                return int.from_bytes(data[found + 16 : found + 24], sys.byteorder)
            found = data.find(wanted, found + 1)
    # Of DT_RELR, and of a program that is not moved: the address stands where it will be
    at = offset_of(loads, address)
    return 0 if at is None else file.unpack("=Q", at)[0]
