"""Programs that keep their CPU: bpf/preemption.bpf.h says what for."""

import ctypes
import functools
import struct
from collections.abc import Iterable
from pathlib import Path

from ..linux import kernel
from . import prototypes, trials

_TYPES = b"/sys/kernel/btf/vmlinux"
_KEEP_CPU, _RELEASE_CPU = 0x70677401, 0x70677402
"""The helpers that there are not, as in bpf/preemption.bpf.h."""
_FUNCTIONS = {_KEEP_CPU: b"bpf_preempt_disable", _RELEASE_CPU: b"bpf_preempt_enable"}
SINCE = 6, 15
"""The functions are there since 6.10 (fc7566ad0a82, "bpf: Introduce bpf_preempt_[disable,enable]
kfuncs"). Between them no function is called that is verified for itself, before 6.15 (e2d8f560d1da,
"bpf: Summarize sleepable global subprogs")."""
_OF_KERNEL = 2  # BPF_PSEUDO_KFUNC_CALL
_FUNC = 12  # BTF_KIND_FUNC
_CALL = struct.Struct("<BBhi")  # struct bpf_insn
_GO_ON = bytes.fromhex("0500000000000000")  # to the next: the verifier drops it


@functools.cache
def _calls() -> dict[int, bytes]:
    """What stands for each of those helpers: a call of the kernel's function, or nothing."""
    nothing = dict.fromkeys(_FUNCTIONS, _GO_ON)
    if kernel.version() < SINCE:
        return nothing
    library = prototypes.load()
    types = library.btf__parse(_TYPES, None)
    if not types:
        return nothing
    numbers = {of: library.btf__find_by_name_kind(types, of, _FUNC) for of in _FUNCTIONS.values()}
    library.btf__free(types)
    calls = {no: _call(_OF_KERNEL, numbers[name]) for no, name in _FUNCTIONS.items()}
    # Without a compiler in the kernel, no program may call its functions
    return calls if trials.may_do(b"".join(calls.values())) else nothing


def _call(kind: int, number: int) -> bytes:
    return _CALL.pack(0x85, kind << 4, 0, number)


def is_possible() -> bool:
    """Whether the kernel lets a program keep its CPU."""
    return _GO_ON not in _calls().values()


def has_no_jit() -> bool:
    """Whether programs are interpreted: these have their variables on the task's own stack."""
    try:
        return Path("/proc/sys/net/core/bpf_jit_enable").read_text().strip() == "0"
    except OSError:
        return False


def settle(programs: Iterable[int]) -> None:
    """Have the programs keep their CPU, where the kernel lets them; before they are loaded.

    `programs` are libbpf's pointers.
    """
    library = prototypes.load()
    found = {_call(0, number): call for number, call in _calls().items()}
    for program in programs:
        address = library.bpf_program__insns(program)
        code = ctypes.string_at(address, _CALL.size * library.bpf_program__insn_cnt(program))
        for helper, call in found.items():
            at = code.find(helper)
            while at >= 0:
                if at % _CALL.size == 0:
                    ctypes.memmove(address + at, call, len(call))
                at = code.find(helper, at + 1)
