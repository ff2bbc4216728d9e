"""Compiles bpf/types.bcc.c with bcc, and writes its BTF to a file descriptor.

A program of its own, run by kernel_types.py: the compiler takes 170 MiB, prints what it likes,
and can abort.
"""

import os
import sys

from ...libbpf import btf

NO_LIBRARY, NOT_COMPILED, NOT_LOADED = 10, 11, 12
"""Exit codes; the reason is the last line printed. Of NOT_COMPILED it is what bcc printed."""


def main(source: str, out: int) -> int:
    """Compile, load, ask the kernel for the BTF, write it."""
    try:
        from bcc import BPF
    except (ImportError, OSError, AttributeError) as error:
        print(error)
        return NO_LIBRARY
    flags = ["-DHAS_ATTACH_COOKIE"] if btf.has_cookies() else []
    try:
        compiled = BPF(src_file=source, cflags=flags)
    except Exception as error:
        print(error)
        return NOT_COMPILED
    try:
        program = compiled.load_func("types", BPF.RAW_TRACEPOINT)
        data = btf.of_program(program.fd)
    except Exception as error:
        print(error)
        return NOT_LOADED
    with os.fdopen(out, "wb") as file:
        file.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
