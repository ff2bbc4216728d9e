"""Where a function's entry takes a probe that costs little.

A probe's instruction is replaced by a trap. Some the kernel then emulates; every
other it lets the processor step through on its own, in a second trap, which costs many times as
much in a virtual machine: arch/x86/kernel/uprobes.c, branch_setup_ops() and
push_setup_ops(). Functions of today's distributions begin with one of those others, endbr64.
"""

import re

from . import x86

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
ARGUMENTS = {"pgaio_wref_wait": (), "smgrstartreadv": (1, 2, 3, 4, 6), "submit": (1, 2)}
"""Of such functions, those that a probe's program looks at; of others it may be any."""


def place(code: bytes, function: str = "") -> int | None:
    """So many bytes after the function's first is the first instruction that is emulated, with the
    return address and the function's arguments still where they were. None if that is not certain.

    `code` begins where the function does, and is x86-64's. No loop may lead back there: none of
    those that are probed begins with one.
    """
    at = 0
    needed = {_IN_REGISTERS[number - 1] for number in ARGUMENTS.get(function, _ALL)}
    while not _EMULATED.match(code, at):
        instruction = x86.decode(code, at)
        if instruction is None or instruction.changes in {_STACK, *needed}:
            return None
        at += instruction.length
    return at
