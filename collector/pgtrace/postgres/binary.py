"""What a PostgreSQL binary holds, and what a process of it has in memory.

Paths are `/proc/PID/exe`: the file that runs, whatever became of its name on disk.
Addresses are those of the ELF file; offsets are bytes from the start of the file.
"""

import functools
import platform
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import sudo
from ..errors import PermissionDeniedError, TargetError, UnsupportedError

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

PROVIDER = "postgresql"

_MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64", "ppc64le": "EM_PPC64",
             "s390x": "EM_S390", "riscv64": "EM_RISCV"}  # fmt: skip
_AT_ENTRY = 9  # include/uapi/linux/auxvec.h
_CAP_SYS_PTRACE = 19  # include/uapi/linux/capability.h

_Load = tuple[int, int, int]  # address, size, offset


@dataclass(frozen=True, slots=True)
class Site:
    """One place where a USDT probe fires; a probe may have several."""

    name: str
    offset: int
    semaphore: int | None
    """Offset of the counter that arms the site (`ref_ctr_offset`); None when it is always armed."""
    arguments: str
    """As the note has them, such as `8@%rax -4@$1`."""


def sites(path: Path | str) -> list[Site]:
    """Read the notes of provider `postgresql`; empty for a build without --enable-dtrace.

    Raise TargetError when the file is gone, UnsupportedError when this host cannot run it.
    """
    with _elf(path) as elf:
        section = elf.get_section_by_name(".note.stapsdt")
        if section is None:
            return []
        base = elf.get_section_by_name(".stapsdt.base")
        base_address = None if base is None else int(base["sh_addr"])
        return list(_notes(section.data(), base_address, _loads(elf)))


def probes(path: Path | str) -> set[str]:
    """Names of the USDT probes, such as `query__start`. Errors as sites()."""
    return {site.name for site in sites(path)}


def symbol_address(path: Path | str, name: str) -> int | None:
    """Address of a symbol that the file defines; None when it has none of that name.

    Asks the hash table of the dynamic symbols, then, if need be, the debugger's table.
    Raise TargetError when the file is gone, UnsupportedError when this host cannot run it.
    """
    with _elf(path) as elf:
        return _address(elf, name)


def symbol_offset(path: Path | str, name: str) -> int | None:
    """Offset of a symbol in the file, as a uprobe wants it. As symbol_address() otherwise."""
    with _elf(path) as elf:
        address = _address(elf, name)
        return None if address is None else _offset(_loads(elf), address)


def has_symbol(path: Path | str, name: str) -> bool:
    """Whether the file defines this symbol. Errors as symbol_address()."""
    return symbol_address(path, name) is not None


def is_foreign(path: Path | str) -> bool:
    """Whether a program is of another architecture than this one; False if it may not be read."""
    headers = []
    for file in path, "/proc/self/exe":
        try:
            with Path(file).open("rb") as stream:
                header = stream.read(20)
        except OSError:
            return False
        headers.append((header[4:6], header[18:20]))  # EI_CLASS and EI_DATA, e_machine
    return headers[0] != headers[1]


def variable_address(pid: int, name: str) -> int:
    """Where a global variable is in the memory of a process, and of all its forks.

    Raise TargetError when the process is gone, PermissionDeniedError when it may not be looked
    into, UnsupportedError when its binary does not export the variable.
    """
    with _elf(f"/proc/{pid}/exe") as elf:
        address = _address(elf, name)
        entry = int(elf.header["e_entry"])
    if address is None:
        raise UnsupportedError(
            f"The PostgreSQL binary of process {pid} does not export {name}: its symbols were "
            "stripped. Use the packages of your distribution or of postgresql.org."
        )
    return address + _running_entry(pid) - entry


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Read the memory of a process: at most `size` bytes, fewer where its mapping ends.

    Raise TargetError when the process is gone or nothing is mapped there,
    PermissionDeniedError when it may not be looked into.
    """
    try:
        with _told_apart(pid), Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            data = memory.read(size)
    except (OSError, ValueError, OverflowError) as error:
        raise TargetError(f"No memory at {address:#x} in process {pid}: {error}.") from error
    if not data:
        raise TargetError(f"Process {pid} ended while its memory was read.")
    return data


def read_variable(pid: int, name: str, size: int) -> int:
    """A global variable of a process, as a number. Errors as variable_address()."""
    return int.from_bytes(read_memory(pid, variable_address(pid, name), size), sys.byteorder)


def running_query(
    pid: int, limit: int = 1024, variable: int | None = None
) -> tuple[bytes, bool] | None:
    """Text of the statement that a backend runs now, and whether more than `limit` bytes were cut.

    None when it runs none, or statements too short to be caught. The bytes are in the encoding
    of the database; a cut may split a character. The source is `debug_query_string`, which the
    server sets for both protocols and clears when the statement ends. `variable` is its address,
    if it is known: the same in all processes of a server. Errors as variable_address().
    """
    if variable is None:
        variable = variable_address(pid, "debug_query_string")
    for _ in range(3):
        pointer = _pointer(pid, variable)
        if pointer == 0:
            return None
        try:
            text = read_memory(pid, pointer, limit + 1)
        except TargetError:
            # Freed under our hands: a live process has cleared the pointer by now.
            if _pointer(pid, variable) == pointer:
                raise
            continue
        if _pointer(pid, variable) == pointer:
            head, end, _ = text.partition(b"\0")
            return head[:limit], not end
    return None


def may_not_look(what: str, error: OSError) -> PermissionDeniedError:
    """Make the error for something below /proc that the kernel does not show us."""
    status = Path("/proc/self/status").read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    if effective >> _CAP_SYS_PTRACE & 1:
        why = (
            "although pgtrace has CAP_SYS_PTRACE: a security module or a user namespace forbids it"
        )
        return PermissionDeniedError(f"{what} ({error.strerror}), {why}.")
    return PermissionDeniedError(
        f"{what} ({error.strerror}): CAP_SYS_PTRACE is missing. {sudo.how()}"
    )


def _pointer(pid: int, address: int) -> int:
    return int.from_bytes(read_memory(pid, address, 8), sys.byteorder)


def _running_entry(pid: int) -> int:
    # The entry point that the kernel wrote down tells where the binary was loaded; unlike
    # /proc/PID/maps it needs no comparing of file names, nor of devices, which btrfs and
    # overlayfs report differently there.
    with _told_apart(pid):
        vector = Path(f"/proc/{pid}/auxv").read_bytes()
    for key, value in struct.iter_unpack("=QQ", vector[: len(vector) // 16 * 16]):
        if key == _AT_ENTRY:
            return int(value)
    raise TargetError(f"Process {pid} has no program in memory: it is ending.")


@contextmanager
def _told_apart(pid: int | str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, ProcessLookupError) as error:
        raise TargetError(f"Process {pid} has ended.") from error
    except PermissionError as error:
        raise may_not_look(f"Process {pid} may not be looked into", error) from error


_OPEN = 4
_opened: "dict[tuple[int, int, int], ELFFile]" = {}
"""Binaries stay open: to find one symbol, pyelftools reads the whole hash table."""


def _open(path: Path) -> "ELFFile":
    from elftools.elf.elffile import ELFFile

    status = path.stat()
    key = status.st_dev, status.st_ino, status.st_mtime_ns
    if key not in _opened:
        if len(_opened) >= _OPEN:
            _opened.pop(next(iter(_opened))).stream.close()
        stream = path.open("rb")
        try:
            _opened[key] = ELFFile(stream)
        except BaseException:
            stream.close()
            raise
    return _opened[key]


@contextmanager
def _elf(path: Path | str) -> "Iterator[ELFFile]":
    from elftools.common.exceptions import ELFError

    path = Path(path)
    pid = path.parts[2] if path.parts[:2] == ("/", "proc") and len(path.parts) > 3 else None
    try:
        elf = _open(path)
        _check_machine(elf, path)
        yield elf
    except (FileNotFoundError, ProcessLookupError) as error:
        what = f"Process {pid} has ended" if pid else f"There is no file {path}"
        raise TargetError(f"{what}.") from error
    except PermissionError as error:
        raise may_not_look(f"{path} may not be read", error) from error
    except ELFError as error:
        raise TargetError(f"{path} is not a program: {error}.") from error


def _check_machine(elf: "ELFFile", path: Path) -> None:
    machine = platform.machine()
    theirs = elf.header["e_machine"]
    if elf.elfclass != 64 or theirs != _MACHINES.get(machine, theirs):
        raise UnsupportedError(
            f"{path} is a {elf.elfclass}-bit {elf.get_machine_arch()} program on a {machine} "
            "kernel: only programs of the kernel's own architecture can be probed."
        )


def _address(elf: "ELFFile", name: str) -> int | None:
    symbol = _dynamic_symbol(elf, name)
    if symbol is None:
        table: Any = elf.get_section_by_name(".symtab")
        symbol = next(iter(table.get_symbol_by_name(name) or ()), None) if table else None
    if symbol is None or symbol["st_shndx"] == "SHN_UNDEF":
        return None
    return int(symbol["st_value"])


def _dynamic_symbol(elf: "ELFFile", name: str) -> Any:
    table = _hash_table(elf)
    return table.get_symbol(name) if table else None


@functools.lru_cache(maxsize=_OPEN)
def _hash_table(elf: "ELFFile") -> Any:
    from elftools.elf.hash import ELFHashTable, GNUHashTable

    # The segment, not the sections .gnu.hash and .dynsym: it is there in a binary whose
    # section headers were stripped.
    for dynamic in elf.iter_segments("PT_DYNAMIC"):
        symbols: Any = dynamic
        _, offset = symbols.get_table_offset("DT_GNU_HASH")
        if offset is not None:
            return GNUHashTable(elf, offset, symbols)
        _, offset = symbols.get_table_offset("DT_HASH")
        if offset is not None:
            return ELFHashTable(elf, offset, 0, symbols)
    return None


def _loads(elf: "ELFFile") -> list[_Load]:
    return [
        (int(load["p_vaddr"]), int(load["p_filesz"]), int(load["p_offset"]))
        for load in elf.iter_segments("PT_LOAD")
    ]


def _offset(loads: list[_Load], address: int) -> int | None:
    for start, size, offset in loads:
        if start <= address < start + size:
            return address - start + offset
    return None


def _notes(data: bytes, base_address: int | None, loads: list[_Load]) -> Iterator[Site]:
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
        offset = _offset(loads, address + (base_address - base if base_address else 0))
        if provider == PROVIDER.encode() and offset is not None:
            yield Site(
                name.decode(),
                offset,
                _offset(loads, semaphore) if semaphore else None,
                arguments.decode(),
            )
