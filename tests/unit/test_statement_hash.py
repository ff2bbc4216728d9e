"""Statements are told apart by all but literals and comments, and alike in both halves."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgtrace.engines import layout
from pgtrace.postgres.statement_hash import text_hash

BPF = Path(__file__).parents[2] / "bpf"
PROGRAM = """
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#define KERNEL_TYPES_BPF_H
#define TASKS_BPF_H
#define SEC(name)
#define __noinline
#undef __always_inline
#define __always_inline inline
#define bpf_probe_read_user(...) 0
#include "pgtrace.h"
#include "branchless.bpf.h"
static struct pgt_options options;
static struct pgt_task only;
static struct pgt_task *task_at(__u32 index)
{
	return &only;
}
#include "hash.bpf.h"
__u64 hash(const char *text, __u32 length, __u8 cut)
{
	__builtin_memcpy(only.query.text, text, length);
	only.query.text_length = length;
	only.query.cut = cut;
	return text_hash(&only, &only);
}
"""
Hash = Callable[[bytes, bool], int]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Hash:
    """The kernel half's own, compiled for this host."""
    clang = shutil.which("clang")
    assert clang, "it is needed to build pgtrace, too"
    directory = tmp_path_factory.mktemp("hash")
    (directory / "hash.c").write_text(PROGRAM)
    subprocess.run(
        [clang, "-O1", "-shared", "-fPIC", f"-I{BPF}", "hash.c", "-o", "hash.so"],
        cwd=directory,
        check=True,
    )
    function = ctypes.CDLL(str(directory / "hash.so")).hash
    function.restype = ctypes.c_uint64
    function.argtypes = (ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint8)
    return lambda text, cut: int(function(text, len(text), cut))


PIECES = [  # of what the scanner looks at
    "select", "e", "E", "n", "B", "x", "u", "U&", "_", "é", "a", "'", "''", "\\'", "\\", '"', '""',
    "$", "$$", "$1", "$t$", "--", "-", "/*", "*/", "/", "*", "\n", "\r", " ", "\t", "\v",
    ".", "..", "1", "2.5", "1e", "+", "(", ")", ",", "=", "<", ">", "[", ";", "&", ":",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@settings(max_examples=1500)
@given(TEXTS.map(str.encode) | st.binary(max_size=60), st.booleans())
@example(b"1e+2 1e- 0x1e+5 1e--x\n1e+", False)
@example(b"$$ $a$ $t$ $$ $t$ $t $t$ $1$t$", False)
@example(b"(-1 ,\n-2 =- 3 +-4 - -5 *-.6 /-7/-8 1e+-9 (--\n-1 (/**/-1 'a'- -1 [-1e-1", False)
@example(b"/* /* */ ' */ ' /*/**/*/ ' ", False)
@example(b"'a' --'\n 'b' --\n'\\' e'a'\n'\\'' x'\\'", False)
@example(b"$e'\\' $x'\\'", False)
@example(b"select '" + b"x" * 1010, True)
def test_both_halves_have_the_same(kernels: Hash, text: bytes, cut: bool) -> None:
    text = text.replace(b"\0", b"")
    assert len(text) < layout.TEXT
    assert kernels(text, cut) == text_hash(text, cut)


@pytest.mark.parametrize(
    "text",
    [
        'select "TracedProcess"."id", "it\'s" from "TracedProcess" where "TracedProcess"."id" = {}',
        "select * from t where a = {} /*traceparent='00-{}-01',route='%2Fa'*/",
        "/* {} /* {} */ */ select * from t where a = {}",
        "select 1 -- it's {}\n, a",
        "update t set \"a\" = $1, b = '{}' where c = $2 -- {}",
        "select $a${}$a$, $${}$$, a$1 from t where b = {}",
        r"select E'\'{}', e'a\\', 'C:\{}' from " "t" "".replace('""', '"'),
        "insert into t values ({}, {}.5, 1e{}, 0x{}, 1_{})",
        r"select * from t where path = 'C:\{}\' and b = '{}'",
    ],
)
def test_what_literals_and_comments_hold_makes_no_statements(text: str) -> None:
    values = ("1", "42", "777")
    assert len({text_hash(text.replace("{}", value).encode()) for value in values}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select a", "select a /* b */"),
        ("select a", "/* b */ select a"),
        ("select a", "  select/* b */a -- c"),
        ("select a", "select\n\ta\n"),
        ("select 'a', 1", "select 'it''s', 1.5"),
        ("values ('a')", r"values ( E'\\a')"),
        ("select 'a'", "select $$a$$"),
        ("select 'a'", "select 'a'\n'b'"),
        ("update t set a = a + 17 where b = 1", "update t set a = a + -17 where b =-1"),
        ("insert into t values (1, 2.5)", "insert into t values (-1,\n -2.5)"),
        ("select a[1], b->1, c * 2 / 3", "select a[-1], b->-1, c * -2 / -3"),
        ("select a - 1", "select a - -1"),
    ],
)
def test_are_one(one: str, other: str) -> None:
    assert text_hash(one.encode()) == text_hash(other.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('select "a1"', 'select "a2"'),
        ('select "a"', 'select "a "'),
        ('select "A--b"', 'select "A"'),
        ("select a1", "select a2"),
        ("select a$1", "select a$2"),
        ("select $1", "select $2"),
        ("select a b", "select ab"),
        ("select a -- b\n, c", "select a -- b, c"),
        ("select a - -b", "select a --b"),
        ("select /* a */ b", "select /* a"),
        ("select 'a' = b", "select 'a' <> b"),
        ("select a - 1", "select a + 1"),
        ("select a -1", "select a, 1"),
        ("select (-a)", "select (a)"),
        ("select 2 - 1", "select 2 , 1"),
        # Behind a word the minus may be the operator
        ("select case a when b then -1 end", "select case a when b then 1 end"),
        # What is shown of one is not what is shown of the other
        ("select 'a'", "select 'a"),
        (r"select 'a\b'", r"select 'a\'"),
        # Backslashes mean the one or the other: then it is rather two than one too few
        (r"select 'a\'b', c, 'd\'e'", r"select 'a\'b', f, 'd\'e'"),
    ],
)
def test_are_two(one: str, other: str) -> None:
    assert text_hash(one.encode()) != text_hash(other.encode())
