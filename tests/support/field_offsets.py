"""Where fields of the kernel's structures are, as BTF tells, and which of them pgtrace reads."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

KERNEL = Path(__file__).parents[2] / "bpf" / "kernel_types.bpf.h"
Field = tuple[str, str]


def offsets(btf: Path) -> dict[Field, int]:
    """In bits, of each field of each structure that has a name."""
    command = ["bpftool", "-j", "btf", "dump", "file", str(btf)]
    dumped = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    types = {each["id"]: each for each in json.loads(dumped)["types"]}
    return {
        (each["name"], field): bits
        for each in types.values()
        if each["kind"] == "STRUCT" and each["name"] != "(anon)"
        for field, bits in _fields(types, each, 0)
    }


def _fields(types: dict[int, Any], of: Any, start: int) -> list[tuple[str, int]]:
    found = []
    while of["kind"] in ("CONST", "VOLATILE"):
        of = types[of["type_id"]]
    for member in of.get("members", ()):  # none: a bit field that only pads
        at = start + member["bits_offset"]
        if member["name"] == "(anon)":
            found += _fields(types, types[member["type_id"]], at)
        else:
            found.append((member["name"], at))
    return found


def read_by_pgtrace() -> set[Field]:
    """Every field that bpf/kernel_types.bpf.h has, of whatever kernel, but those of io_uring."""
    text = KERNEL.read_text()
    text = text[text.index("attribute push") : text.index("attribute pop")]
    structure = re.compile(r"^struct (\w+?)(?:___\w+)? \{\n(.*?)^\};", re.DOTALL | re.MULTILINE)
    return {
        (name, field)
        for name, body in structure.findall(text)
        for field in re.findall(r"\W(\w+)(?:\[\d+\])?;", body)
        if not re.match(r"io_|kiocb|trace_event_raw_io_uring", name)
    }
