"""The instructions of x86-64 with which functions begin: how long each is and what it changes.

Of the whole set only what compilers put before a function's first branch, and that leaves the
stack alone: moves, additions, comparisons, shifts. Whatever else comes is unknown, and so is all
that follows. The encodings are those of the Intel 64 manual, volume 2, chapter 2 and appendix A.
"""

from typing import NamedTuple

NAMES = (
    *("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"),
    *(f"r{number}" for number in range(8, 16)),
)
"""Of registers, by their numbers."""
_ENDBR64 = b"\xf3\x0f\x1e\xfa"
_NAMES_REGISTER = frozenset(
    (0x03, 0x0B, 0x23, 0x2B, 0x33, 0x63, 0x8B, 0x8D, 0x0FB6, 0x0FB7, 0x0FBE, 0x0FBF)
)
_NAMES_EITHER = frozenset((0x01, 0x09, 0x21, 0x29, 0x31, 0x89))
_COMPARES = frozenset((0x39, 0x3B, 0x85))
_SHORT = 0x66  # a prefix: 16 bits
_LEA, _ENTERS = 0x8D, 0xC7
_ARITHMETIC = (0x81, 0x83)
_COMPARE = 7  # what of the arithmetic changes nothing
_IMMEDIATES = {0x81: 4, 0x83: 1, 0xC1: 1, 0xC7: 4}


class Instruction(NamedTuple):
    """What one does."""

    length: int
    changes: int | None = None
    """The number of a register."""


class _Operand(NamedTuple):
    length: int
    """With the byte that tells its form."""
    register: int
    """The other operand, or what extends the opcode."""
    number: int | None
    """Of the register that it is; None: it is in memory."""


def decode(code: bytes, at: int) -> Instruction | None:
    """The instruction that begins there; None if it is none of these, or does not end."""
    if code.startswith(_ENDBR64, at):
        return Instruction(len(_ENDBR64))
    try:
        short = code[at] == _SHORT
        rex = code[at + short] if code[at + short] & 0xF0 == 0x40 else 0
        if short and rex & 8:  # a prefix too many: no compiler's
            return None
        found = _decode(code, at, short, rex)
    except IndexError:
        return None
    return found if found and at + found.length <= len(code) else None


def _decode(code: bytes, begin: int, short: bool, rex: int) -> Instruction | None:
    at = begin + short + bool(rex)
    opcode = code[at]
    at += 1
    if opcode & 0xF8 == 0xB8:
        wide = 8 if rex & 8 else 2 if short else 4
        return Instruction(at + wide - begin, changes=opcode & 7 | (rex & 1) << 3)
    if opcode == 0x0F:
        opcode = opcode << 8 | code[at]
        at += 1
    operand = _operand(code, at, rex)
    length = at + operand.length - begin
    if opcode in _COMPARES:
        return Instruction(length)
    if opcode in _NAMES_REGISTER and not (opcode == _LEA and operand.number is not None):
        return Instruction(length, changes=operand.register)
    if opcode in _NAMES_EITHER:
        return Instruction(length, changes=operand.number)
    if opcode in _IMMEDIATES:
        size = _IMMEDIATES[opcode]
        return _immediate(length + (2 if short and size == 4 else size), opcode, operand)
    return None


def _immediate(length: int, opcode: int, operand: _Operand) -> Instruction | None:
    """What the opcode does stands where others name a register."""
    extension = operand.register & 7
    if extension == _COMPARE and opcode in _ARITHMETIC:
        return Instruction(length)
    if extension and opcode == _ENTERS:
        return None
    return Instruction(length, changes=operand.number)


def _operand(code: bytes, at: int, rex: int) -> _Operand:
    """By the bytes ModRM and SIB, and the displacement."""
    form, low = code[at] >> 6, code[at] & 7
    register = code[at] >> 3 & 7 | (rex & 4) << 1
    if form == 3:
        return _Operand(1, register, low | (rex & 1) << 3)
    length = 1
    if low == 4:  # a SIB byte
        low = code[at + 1] & 7
        length += 1
    return _Operand(length + (4 if low == 5 else 0, 1, 4)[form], register, None)
