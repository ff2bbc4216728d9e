"""Where a USDT probe's first argument lies, as a cookie says it to a program: see pgtrace.h.

The grammar is that of the assembler's operands, as in SystemTap's notes:
https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
"""

import platform
import re

from . import layout

_MOST = 1 << 31
_X86 = re.compile(r"-?8@(?:(?P<displacement>-?\d+)?\((?P<base>%\w+)\)|(?P<register>%\w+))(?: |$)")
_ARM64 = re.compile(
    r"-?8@(?:\[(?P<base>\w+)(?:, *#?(?P<displacement>-?\d+))?\]|(?P<register>\w+))(?: |$)"
)
_X86_ORDER = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi"
_REGISTERS = {
    "x86_64": {f"%{name}": 8 * at for at, name in enumerate(_X86_ORDER.split())} | {"%rsp": 152},
    "aarch64": {f"x{number}": 8 * number for number in range(31)} | {"sp": 248},
}
"""Bytes from the start of struct pt_regs: arch/x86/include/uapi/asm/ptrace.h; on arm64 of struct
user_pt_regs, with which it begins."""
_GRAMMARS = {"x86_64": _X86, "aarch64": _ARM64}


def cookie(arguments: str, machine: str | None = None) -> int | None:
    """Of a site's arguments, such as `8@%rsi -4@$1`, where the first, a pointer, lies.

    None if it is of another size, or lies where this cannot be said: at a name, or at an index.
    """
    machine = machine or platform.machine()
    match = _GRAMMARS[machine].match(arguments) if machine in _GRAMMARS else None
    if match is None:
        return None
    found = _REGISTERS[machine].get(match["register"] or match["base"])
    displacement = int(match["displacement"] or 0)
    if found is None or not -_MOST <= displacement < _MOST:
        return None
    if match["register"]:
        return found
    return found | layout.COOKIE_IN_MEMORY | (displacement & 0xFFFFFFFF) << 32
