"""Where a function's entry takes a probe that costs little.

A probe's instruction is replaced by a trap. Some the kernel then emulates, in half a microsecond
here; every other it lets the processor step through on its own, in a second trap, which takes
eleven times as long in a virtual machine: arch/x86/kernel/uprobes.c, branch_setup_ops() and
push_setup_ops(). Functions of today's distributions begin with one of those others, endbr64.
"""

import re

MOST_CODE = 32
"""So many bytes are looked at."""

_EMULATED = re.compile(
    rb"""(?:
        [\x50-\x57]             # push %rax to %rdi
        | \x41[\x50-\x57]       # push %r8 to %r15
        | \x90                  # nop
        | [\x74\x75]            # je, jne, near
        | \x0f[\x84\x85]        # far
    )""",
    re.VERBOSE | re.DOTALL,
)
_LEAVES_ARGUMENTS = re.compile(
    rb"""(?:
        \xf3\x0f\x1e\xfa        # endbr64
        | \x48\x8b\x05.{4}      # mov a variable,%rax
        | \x48\x63\x46.         # movslq a field of the second argument,%rax
        | \x48\x85\xc0          # test %rax,%rax
    )""",
    re.VERBOSE | re.DOTALL,
)
"""And the stack pointer."""


def step(code: bytes) -> int | None:
    """How many bytes after its first a function has an instruction that is emulated, with its
    arguments and its return address still where they were; None if that is not certain.

    `code` begins where the function does, and is x86-64's. No loop may lead back there: none of
    those that are probed begins with one.
    """
    at = 0
    while not _EMULATED.match(code, at):
        passed = _LEAVES_ARGUMENTS.match(code, at)
        if not passed:
            return None
        at = passed.end()
    return at
