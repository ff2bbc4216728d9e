"""Both halves have the same picture of the memory that they share.

bpf/pgtrace.h and bpf/histogram.bpf.h are compiled here for the host, and what comes out is held
against collector/pgtrace/engines/layout.py and collector/pgtrace/histogram.py.
"""

import ctypes
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from pgtrace.engines import layout, ring_records, slot_table, task_table
from pgtrace.engines.libbpf_engine import OBJECT
from pgtrace.model import buckets

BPF = Path(__file__).parents[2] / "bpf"
HEADER = (BPF / "pgtrace.h").read_text()
STRUCTS: dict[str, type[ctypes.Structure]] = {
    "options": layout.Options,
    "live": layout.Live,
    "slot": layout.Slot,
    "chunk": layout.Chunk,
    "excluded": layout.Excluded,
    "excluded_writes": layout.ExcludedWrites,
    "completed": layout.Completed,
    "query": layout.QueryRecord,
    "charged": layout.Charged,
    "slot_key": layout.SlotKey,
    "calls": layout.Calls,
    "statement_key": layout.StatementKey,
    "statement": layout.Statement,
    "file_entry": layout.FileEntry,
    "file_key": layout.FileKey,
    "file_state": layout.FileState,
    "stream": layout.Stream,
    "charge": layout.Charge,
    "hashing": layout.Hashing,
    "passed": layout.Passed,
    "recent": layout.Recent,
    "seen": layout.Seen,
    "times": layout.Times,
    "sample": layout.Sample,
    "memory": layout.Memory,
    "task": layout.Task,
    "leader_key": layout.LeaderKey,
    "handles": layout.Handles,
    "blocks": layout.Blocks,
    "asked_key": layout.AskedKey,
    "asked": layout.Asked,
}
RENAMED = {("task", "scratch"): "text"}
ENUMS: dict[str, dict[str, str]] = {
    "operation": {
        "OP_READ": "read",
        "OP_WRITE": "write",
        "OP_FSYNC": "fsync",
        "OP_FDATASYNC": "fdatasync",
        "OP_SYNC_FILE_RANGE": "sync_file_range",
    },
    "source": {
        "PAGE_CACHE": "page_cache",
        "READAHEAD_ISSUED": "readahead_issued",
        "DEVICE": "device",
        "WAIT": "wait",
        "SOURCE_UNKNOWN": "unknown",
    },
    "pattern": {
        "SEQUENTIAL": "sequential",
        "NEAR": "near",
        "RANDOM": "random",
        "FIRST": "first",
        "PATTERN_UNKNOWN": "unknown",
    },
    "kind": {
        "KIND_UNKNOWN": "unknown",
        "RELATION": "relation",
        "VISIBILITY_MAP": "visibility map",
        "FREE_SPACE_MAP": "free space map",
        "TEMPORARY": "temporary",
        "WAL": "wal",
        "SLRU": "slru",
        "OTHER": "other",
    },
    "size": {"BLOCKS_1": "1", "BLOCKS_2_4": "2-4", "BLOCKS_5_15": "5-15", "BLOCKS_16": "16+"},
    "scope": {"OUTSIDE": "outside", "IN_QUERY": "query"},
    "performer": {"ITSELF": "backend", "IO_URING": "io_uring"},
    "checkpoint_phase": {
        "CHECKPOINT_BEGIN": "begin",
        "CHECKPOINT_WRITE": "write",
        "CHECKPOINT_SYNC": "sync",
        "CHECKPOINT_SYNCED": "synced",
        "CHECKPOINT_END": "end",
    },
    "protocol": {"PROTOCOL_UNKNOWN": "unknown", "SIMPLE": "simple", "EXTENDED": "extended"},
    "time": {
        "ON_CPU": "cpu",
        "RUN_QUEUE": "run_queue",
        "SLEEP": "sleep",
        "STOLEN": "stolen",
        "QUEUE_IN_READ": "run_queue_in_read",
    },
}
ORDERS = {
    "operation": layout.OPERATIONS,
    "source": layout.SOURCES,
    "pattern": layout.PATTERNS,
    "kind": layout.KINDS,
    "size": layout.SIZES,
    "scope": layout.SCOPES,
    "performer": layout.PERFORMERS,
    "checkpoint_phase": layout.CHECKPOINT_PHASES,
    "protocol": layout.PROTOCOLS,
    "time": layout.TIMES,
}

Run = Callable[..., bytes]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Compile a C program that sees both headers, run it, and return what it printed."""
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler: apt-get install clang")

    def run(body: str, stdin: bytes = b"") -> bytes:
        directory = tmp_path_factory.mktemp("layout")
        (directory / "program.c").write_text(
            "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n"
            "#include <linux/types.h>\n"
            "#undef __always_inline\n#define __always_inline inline\n"
            '#include "pgtrace.h"\n#include "histogram.bpf.h"\n'
            f"int main(void)\n{{\n{body}\nreturn 0;\n}}\n"
        )
        command = [compiler, "-O2", "-I", str(BPF), "-o", "program", "program.c"]
        subprocess.run(command, cwd=directory, check=True)
        return subprocess.run(
            [directory / "program"], input=stdin, capture_output=True, check=True
        ).stdout

    return run


def numbers(run: Run, expressions: list[str]) -> dict[str, int]:
    """What C says of each expression."""
    lines = (f'printf("%llu\\n", (unsigned long long)({each}));' for each in expressions)
    return dict(zip(expressions, map(int, run("\n".join(lines)).split()), strict=True))


def c_name(name: str, field: str) -> str:
    return RENAMED.get((name, field), field)


def test_no_structure_or_enumeration_is_left_out() -> None:
    """Each of the header's has its mirror, and each of its members."""
    structs = set(re.findall(r"^struct pgt_(\w+) \{", HEADER, re.MULTILINE))
    assert structs == set(STRUCTS)
    enums = {
        name: " ".join(body.split())
        for name, body in re.findall(r"^enum pgt_(\w+) \{([^}]*)\};", HEADER, re.MULTILINE)
    }
    assert enums.pop("record") == "RECORD_QUERY = 1, RECORD_CHARGED, RECORD_SAMPLE"
    assert set(enums) == set(ENUMS)
    for name, members in enums.items():
        # The last may be how many there are
        listed = [each for each in members.split(", ") if each != f"{name.upper()}S"]
        assert listed == list(ENUMS[name])
    for name, mirror in STRUCTS.items():
        body = re.search(rf"^struct pgt_{name} \{{(.*?)^\}};", HEADER, re.MULTILINE | re.DOTALL)
        assert body is not None
        code = re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)
        members = re.findall(r"(\w+)(?:\[\w+\])*;", code)
        assert members == [c_name(name, field[0]) for field in mirror._fields_]


@pytest.mark.parametrize("name", STRUCTS)
def test_a_structure_is_laid_out_as_its_mirror(run: Run, name: str) -> None:
    """Its size, and each member's offset and size."""
    mirror = STRUCTS[name]
    expected = {f"sizeof(struct pgt_{name})": ctypes.sizeof(mirror)}
    for field, *_ in mirror._fields_:
        place: Any = getattr(mirror, field)
        member = c_name(name, field)
        expected[f"offsetof(struct pgt_{name}, {member})"] = place.offset
        expected[f"sizeof(((struct pgt_{name} *)0)->{member})"] = place.size
    assert numbers(run, list(expected)) == expected


def test_enumerations_have_the_order_of_their_mirrors(run: Run) -> None:
    for name, members in ENUMS.items():
        order = ORDERS[name]
        assert numbers(run, list(members)) == {c: order.index(py) for c, py in members.items()}
        assert len(members) == len(order)


def test_constants_are_the_same(run: Run) -> None:
    """Every number that the header defines, and how many members its enumerations have."""
    defined = set(re.findall(r"^#define (\w+)\s", HEADER, re.MULTILINE)) - {"PGTRACE_H"}
    expected = {name: getattr(layout, name) for name in defined if hasattr(layout, name)}
    assert defined - expected.keys() == {
        "SUB_BITS",
        "MAX_BITS",
        "MAX_IOVECS",
        "NOWHERE",
        "FOLDED",
    }
    expected |= {"SUB_BITS": buckets.SUB_BITS, "MAX_BITS": buckets.MAX_BITS}
    expected |= {
        f"{name.upper()}S": len(order) for name, order in ORDERS.items() if name != "protocol"
    }
    expected |= {
        "RECORD_QUERY": layout.RECORD_QUERY,
        "RECORD_CHARGED": layout.RECORD_CHARGED,
    }
    assert numbers(run, list(expected)) == expected
    assert layout.SUBS == buckets.SUBS
    assert layout.CHUNKS == buckets.LAST // layout.SUBS + 1
    assert layout.FILES & (layout.FILES - 1) == 0, "the kernel half uses it as a mask"


def test_records_are_unpacked_where_their_members_are(run: Run) -> None:
    """The format strings, which are faster than ctypes."""
    expected = {
        "sizeof(struct pgt_slot)": slot_table._SLOT.size,
        "offsetof(struct pgt_slot, chunk)": slot_table._HEAD,
        "sizeof(struct pgt_chunk)": slot_table._CHUNK.size,
        "offsetof(struct pgt_query, text)": ring_records.QUERY.size,
        "sizeof(struct pgt_charged)": ring_records.CHARGED.size,
        "offsetof(struct pgt_task, tid)": task_table._TID_AT,
        "offsetof(struct pgt_task, ended_ns)": task_table._ENDED_AT,
    }
    assert numbers(run, list(expected)) == expected


@pytest.mark.parametrize(
    ("mirror", "form", "first"),
    [
        (layout.Slot, slot_table._SLOT, "owner"),
        (layout.QueryRecord, ring_records.QUERY, "record"),
        (layout.Charged, ring_records.CHARGED, "record"),
    ],
    ids=["slot", "query", "charged"],
)
def test_unpacking_finds_each_member(
    mirror: type[ctypes.Structure], form: struct.Struct, first: str
) -> None:
    """All those that the format string is long enough for, in their order."""
    at = getattr(mirror, first).offset
    filled = mirror()
    expected: list[Any] = []
    for name, kind, *_ in mirror._fields_:
        if name != "padding" and at <= getattr(mirror, name).offset < at + form.size:
            if not issubclass(kind, ctypes.Array):
                setattr(filled, name, len(expected) + 1)
                expected.append(len(expected) + 1)
            elif kind._type_ is ctypes.c_char:
                setattr(filled, name, name.encode())
                expected.append(name.encode().ljust(kind._length_, b"\0"))
            else:
                values = range(len(expected) + 1, len(expected) + 1 + kind._length_)
                setattr(filled, name, kind(*values))
                expected += values
    assert len(expected) >= 2
    assert list(form.unpack_from(bytes(filled), at)) == expected


def test_a_key_has_one_number(run: Run) -> None:
    """The formula of the header, for each combination: no two share a number."""
    expressions = {}
    for scope, operation, performer, direct, size, pattern, source in product(
        *(ENUMS[name] for name in ("scope", "operation", "performer")),
        (0, 1),
        *(ENUMS[name] for name in ("size", "pattern", "source")),
    ):
        outer = f"({scope} * OPERATIONS + {operation})"
        outer = f"(({outer} * PERFORMERS + {performer}) * 2 + {direct})"
        done = ENUMS["operation"][operation]
        syncs = done not in ("read", "write")
        number = f"(({outer} * SIZES + {size}) * PATTERNS + {pattern}) * SOURCES + {source}"
        expressions[number] = {
            "scope": ENUMS["scope"][scope],
            "performed_by": ENUMS["performer"][performer],
            "direct": bool(direct),
            "size": ENUMS["size"][size],
            "pattern": ENUMS["pattern"][pattern],
            "source": ENUMS["source"][source],
            "file": 7,
            "operation": "fsync" if syncs else done,
            "call": done if syncs else None,
        }
    found = {n: expressions[each] for each, n in numbers(run, list(expressions)).items()}
    assert found == {n: slot_table.key_of(n, 7)._asdict() for n in range(layout.KEYS)}


LOCATE = """
uint64_t value;
while (fread(&value, sizeof(value), 1, stdin) == 1) {
    __u32 chunk, sub;
    locate(value, &chunk, &sub);
    if (chunk >= CHUNKS || sub >= SUBS)
        return 1;
    printf("%u\\n", chunk * SUBS + sub);
}
"""


def test_a_value_has_the_same_bucket_in_both_halves(run: Run) -> None:
    """At every edge and beside it, and for 100,000 random values of every magnitude."""
    edges = {low + d for i in range(buckets.LAST + 1) for d in (-1, 0, 1)
             for low in buckets.bucket_bounds(i)}  # fmt: skip
    edges |= {(1 << n) + d for n in range(65) for d in (-1, 0, 1)}
    values = sorted(each for each in edges if 0 <= each < 1 << 64)
    assert len(values) > 1000
    generator = random.Random(2)
    values += [generator.getrandbits(generator.randint(1, 64)) for _ in range(100_000)]
    found = run(LOCATE, struct.pack(f"={len(values)}Q", *values))
    wrong = [
        (value, int(bucket), buckets.bucket_index(value))
        for value, bucket in zip(values, found.split(), strict=True)
        if int(bucket) != buckets.bucket_index(value)
    ]
    assert wrong == [], "(value, kernel's bucket, ours)"


def test_the_object_has_no_constants_without_a_name() -> None:
    """Of a .rodata of them alone, such as the initial value of a structure, the BTF has no
    variables. 5.10 then refuses all of it ("vlen == 0", which 6.1 does not mind), and without it
    the verifier follows each function at each of its calls, for minutes."""
    with OBJECT.open("rb") as file:
        names = [section.name for section in ELFFile(file).iter_sections()]
    assert ".rodata.options" in names
    assert ".rodata" not in names


def test_what_is_counted_often_lies_on_whole_lines_of_a_cache() -> None:
    """Else each task, or slot, would have its fields spread over others' lines."""
    assert ctypes.sizeof(layout.Task) % 64 == ctypes.sizeof(layout.Slot) % 64 == 0
