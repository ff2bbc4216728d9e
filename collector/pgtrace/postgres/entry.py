"""Where a function's entry takes a probe that costs little.

A probe's instruction is replaced by a trap. Some the kernel then emulates; every
other it lets the processor step through on its own, in a second trap, which costs many times as
much in a virtual machine: arch/x86/kernel/uprobes.c, branch_setup_ops() and
push_setup_ops(). Functions of today's distributions begin with one of those others, endbr64.
"""

import re
from typing import NamedTuple

from . import x86
from .x86 import Instruction, Memory

MOST_CODE = 64
"""So many bytes are looked at."""

_EMULATED = re.compile(
    rb"""(?:
        [\x50-\x57]             # push %rax to %rdi
        | \x41[\x50-\x57]       # push %r8 to %r15
        | \x90                  # nop
        | [\x70-\x7f\xeb\xe9]   # jumps, with a condition or without
        | \x0f[\x80-\x8f]
    )""",
    re.VERBOSE | re.DOTALL,
)
_STACK = x86.NAMES.index("rsp")
_IN_REGISTERS = [x86.NAMES.index(name) for name in ("rdi", "rsi", "rdx", "rcx", "r8", "r9")]
"""Of the System V ABI: the first six arguments."""
_ALL = tuple(range(1, len(_IN_REGISTERS) + 1))
ARGUMENTS = {
    "pgaio_io_perform_synchronously": (1,),
    "pgaio_io_start_readv": (1, 2, 4),
    "pgaio_wref_wait": (),
    "smgrstartreadv": (6,),
}
"""Of such functions, those that a probe's program looks at; of others it may be any."""
_STORED = 4
"""Bytes of what is stored that are sure to be there: those of an int."""
_WIDEST = 8
"""Bytes that one instruction writes, of those that are known."""


class Place(NamedTuple):
    """Where the probe is put."""

    step: int
    """In bytes, after the function's first."""
    moved: str = ""
    """Where the one argument is that is no longer in its register, as an assembler's operand; empty
    if they all are where they were."""


def place(code: bytes, function: str = "") -> Place | None:
    """The first instruction that is emulated, with the return address and the function's arguments
    still where they were, or one of them where it was stored. None if that is not certain.

    `code` begins where the function does, and is x86-64's. No loop may lead back there: none of
    those that are probed begins with one.
    """
    at = 0
    passed: list[Instruction] = []
    while not _EMULATED.match(code, at):
        instruction = x86.decode(code, at)
        if instruction is None or instruction.changes == _STACK:
            return None
        passed.append(instruction)
        at += instruction.length
    changed = {instruction.changes for instruction in passed}
    needed = [_IN_REGISTERS[number - 1] for number in ARGUMENTS.get(function, _ALL)]
    lost = [register for register in needed if register in changed]
    if not lost:
        return Place(at)
    found = _stored(passed, lost[0]) if len(lost) == 1 else None
    if found is None or found.base is None or found.base in changed:
        return None
    return Place(at, f"{found.displacement}(%{x86.NAMES[found.base]})")


def _stored(passed: list[Instruction], register: int) -> Memory | None:
    """Where what a register held at first is in memory at the end."""
    found = None
    for instruction in passed:
        if found and instruction.memory and not _apart(found, instruction.memory):
            found = None
        if instruction.stores == register:
            found = instruction.memory
        if instruction.changes == register:
            register = -1
    return found


def _apart(one: Memory, other: Memory) -> bool:
    """Whether what is written to the other is certain to leave those bytes of the one alone."""
    gap = other.displacement - one.displacement
    return one.base is not None and one.base == other.base and (gap >= _STORED or gap <= -_WIDEST)
