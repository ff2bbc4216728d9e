"""Where a USDT probe's first argument lies: what is not certain is no place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrace.engines.usdt import cookie

IN_MEMORY = 1 << 16
KNOWN = {
    ("x86_64", "8@%rsi"): 104,
    ("x86_64", "-8@%r15 -4@$1"): 0,
    ("x86_64", "8@(%rsp)"): 152 | IN_MEMORY,
    ("x86_64", "8@24(%rbp)"): 32 | IN_MEMORY | 24 << 32,
    ("x86_64", "8@-144(%rbp)"): 32 | IN_MEMORY | (1 << 32) - 144 << 32,
    ("aarch64", "8@x0"): 0,
    ("aarch64", "8@x20 4@w1"): 160,
    ("aarch64", "8@[sp]"): 248 | IN_MEMORY,
    ("aarch64", "8@[x29, -16]"): 232 | IN_MEMORY | (1 << 32) - 16 << 32,
    ("aarch64", "8@[sp,24]"): 248 | IN_MEMORY | 24 << 32,
}


@pytest.mark.parametrize(("machine", "arguments"), KNOWN)
def test_a_register_or_what_it_points_to(machine: str, arguments: str) -> None:
    assert cookie(arguments, machine) == KNOWN[machine, arguments]


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "4@%esi",
        "1@%sil",
        "8@$5",
        "8@%rsi4@%rdi",
        "8@%xmm0",
        "8@%rip",
        "8@debug_query_string(%rip)",
        "8@8(%rax,%rbx,4)",
        "8@(%rax,%rbx)",
        "8@%fs:16(%rax)",
        "8@9999999999(%rbp)",
        "8@x0",
    ],
)
def test_what_lies_elsewhere_has_no_place(arguments: str) -> None:
    assert cookie(arguments, "x86_64") is None


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.sampled_from(["rbp", "rsp", "r12"]))
def test_every_displacement_fits(displacement: int, base: str) -> None:
    found = cookie(f"8@{displacement}(%{base})", "x86_64")
    assert found is not None
    assert 0 <= found < 1 << 64
    signed = int.from_bytes((found >> 32).to_bytes(4, "little"), "little", signed=True)
    assert (signed, found >> 16 & 0xFFFF) == (displacement, 1)


@given(st.text(max_size=40), st.sampled_from(["x86_64", "aarch64", "riscv64"]))
def test_nothing_that_a_file_says_is_an_error(arguments: str, machine: str) -> None:
    found = cookie(arguments, machine)
    assert found is None or 0 <= found < 1 << 64
