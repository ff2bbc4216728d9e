"""What a PostgreSQL binary holds, and what a process of it has in memory.

Paths are `/proc/PID/exe`: the file that runs, whatever became of its name on disk; or such a file,
held open.
Addresses are those of the ELF file; offsets are bytes from the start of the file.
"""

import platform
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from .. import sudo
from ..errors import PermissionDeniedError, PgtraceError, TargetError, UnsupportedError
from ..linux import capabilities, in_time, program_file
from ..linux.program_file import Program
from . import program
from .symbols import offset_of

if TYPE_CHECKING:
    from .elf import Contents, Site

_MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "s390x": 22, "riscv64": 243}
_NAMES = {3: "x86", 8: "MIPS", 21: "PowerPC", 22: "S/390", 40: "ARM", 62: "x86-64",
          183: "AArch64", 243: "RISC-V", 258: "LoongArch"}  # fmt: skip
"""Both as EM_X86_64 and the others of include/uapi/linux/elf-em.h"""
_AT_ENTRY = 9  # include/uapi/linux/auxvec.h


def sites(path: program.Where) -> "list[Site]":
    """Read the notes of provider `postgresql`; empty for a build without --enable-dtrace.

    Raise TargetError when the file is gone, UnsupportedError when this host cannot run it.
    """
    return _contents(path).sites


def probes(path: program.Where) -> set[str]:
    """Names of the USDT probes, such as `query__start`. Errors as sites()."""
    return {site.name for site in sites(path)}


def symbol_address(path: program.Where, name: str) -> int | None:
    """Address of a symbol that the file defines; None when it has none of that name.

    Asks the hash table of the dynamic symbols, then, if need be, the debugger's table.
    Raise TargetError when the file is gone, UnsupportedError when this host cannot run it.
    """
    return _contents(path, name).addresses.get(name)


def symbol_offset(path: program.Where, name: str) -> int | None:
    """Offset of a symbol in the file, as a uprobe wants it. As symbol_address() otherwise."""
    found = _contents(path, name)
    address = found.addresses.get(name)
    return None if address is None else offset_of(found.loads, address)


def probe_offset(path: program.Where, name: str) -> int | None:
    """Offset in the file of where a probe at a function's entry is put: where it costs least, else
    where the function begins. As symbol_address() otherwise.
    """
    cheap = _contents(path, name).cheap.get(name)
    return symbol_offset(path, name) if cheap is None else cheap


def submission_offset(path: program.Where) -> int | None:
    """Offset in the file of where a probe sees what is handed to I/O workers; None: not known."""
    return _contents(path).submission


def has_symbol(path: program.Where, name: str) -> bool:
    """Whether the file defines this symbol. Errors as symbol_address()."""
    return symbol_address(path, name) is not None


def is_foreign(path: program.Where) -> bool:
    """Whether a program is of another architecture than this one; False if it may not be read."""
    headers = []
    for file in path, "/proc/self/exe":
        try:
            header = program.header(file)
        except OSError:
            return False
        headers.append((header[4:6], header[18:20]))  # EI_CLASS and EI_DATA, e_machine
    return headers[0] != headers[1]


def variable_address(pid: int, name: str) -> int:
    """Where a global variable is in the memory of a process, and of all its forks.

    Raise TargetError when the process is gone, PermissionDeniedError when it may not be looked
    into, UnsupportedError when its binary does not export the variable.
    """
    vector = _vector(pid)
    found = _contents(f"/proc/{pid}/exe", name)
    address = found.addresses.get(name)
    if address is None:
        raise UnsupportedError(
            f"The PostgreSQL binary of process {pid} does not export {name}: its symbols were "
            "stripped. Use the packages of your distribution or of postgresql.org."
        )
    # A place in one program must not be looked for in another, which may have secrets there. Each
    # start of a program has its memory at other addresses
    if _vector(pid) != vector:
        raise TargetError(f"Process {pid} runs another program by now.")
    return address + _running_entry(pid, vector) - found.entry


def known_address(pid: int, name: str) -> int:
    """The same; 0 where it is not known, whatever the reason."""
    try:
        return variable_address(pid, name)
    except PgtraceError:
        return 0


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Read the memory of a process: at most `size` bytes, fewer where its mapping ends.

    Raise TargetError when the process is gone, nothing is mapped there or it does not come in
    time, PermissionDeniedError when it may not be looked into.
    """
    try:
        with _told_apart(pid):
            data = in_time.memory(pid, address, size)
    except (OSError, OverflowError, ValueError) as error:
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
        found = pointer(pid, variable)
        if found == 0:
            return None
        try:
            text = read_memory(pid, found, limit + 1)
        except TargetError:
            # Freed under our hands: a live process has cleared the pointer by now.
            if pointer(pid, variable) == found:
                raise
            continue
        if pointer(pid, variable) == found:
            head, end, _ = text.partition(b"\0")
            return head[:limit], not end
    return None


def may_not_look(what: str, error: OSError) -> PermissionDeniedError:
    """Make the error for something below /proc that the kernel does not show us."""
    lacking = capabilities.missing(capabilities.LOOKING)
    if isinstance(error, TimeoutError):
        return PermissionDeniedError(f"{what} ({error.strerror}); try again in two minutes.")
    if not lacking:
        why = (
            f"although pgtrace has {' and '.join(capabilities.LOOKING)}: a security module or a "
            "user namespace forbids it"
        )
        return PermissionDeniedError(f"{what} ({error.strerror}), {why}.")
    are = "is missing" if len(lacking) == 1 else "are missing"
    return PermissionDeniedError(
        f"{what} ({error.strerror}): {' and '.join(lacking)} {are}. {sudo.how()}"
    )


def pointer(pid: int, address: int) -> int:
    """Where a pointer in the memory of a process leads. Errors as read_memory()."""
    return int.from_bytes(read_memory(pid, address, 8), sys.byteorder)


def _vector(pid: int) -> bytes:
    """What the kernel told a process of its program, when it started that."""
    with _told_apart(pid):
        return Path(f"/proc/{pid}/auxv").read_bytes()


def _running_entry(pid: int, vector: bytes) -> int:
    # The entry point that the kernel wrote down tells where the binary was loaded; unlike
    # /proc/PID/maps it needs no comparing of file names, nor of devices, which btrfs and
    # overlayfs report differently there.
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


def unreadable(path: program.Where) -> str | None:
    """Why what a program holds cannot be known; None if it can, or if it may not be read."""
    try:
        return program.look(path).contents.problem or None
    except OSError:
        return None


class Programs:
    """Those into which probes go, each held open once, until all are."""

    def __init__(self) -> None:
        self._open: dict[program_file.Identity, Program] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def of(self, path: Path) -> Program:
        """What is there now. Errors as sites()."""
        with _said(path):
            found = Program(path)
        known = self._open.setdefault(found.identity, found)
        if known is not found:
            found.close()
        return known


def _contents(path: program.Where, name: str | None = None) -> "Contents":
    with _said(path):
        found = program.look(path, name).contents
    if found.problem:
        raise TargetError(f"{path} is not a program that can be read: {found.problem}.")
    machine = platform.machine()
    if found.elfclass != 64 or found.machine != _MACHINES.get(machine, found.machine):
        theirs = _NAMES.get(found.machine, "foreign")
        raise UnsupportedError(
            f"{path} is a {found.elfclass}-bit {theirs} program on a {machine} kernel: "
            "only programs of the kernel's own architecture can be probed."
        )
    return found


@contextmanager
def _said(path: program.Where) -> Iterator[None]:
    """Say in our words what is wrong with a program's file."""
    _, *parts = str(path).split("/")
    pid = parts[1] if len(parts) == 3 and parts[0] == "proc" else None
    try:
        yield
    except (FileNotFoundError, ProcessLookupError) as error:
        what = f"Process {pid} has ended" if pid else f"There is no file {path}"
        raise TargetError(f"{what}.") from error
    except PermissionError as error:
        raise may_not_look(f"{path} may not be read", error) from error
    except OSError as error:
        raise TargetError(f"{path} cannot be read: {error.strerror or error}.") from error
