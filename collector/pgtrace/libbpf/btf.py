"""BTF: where the kernel's lies, and that of a program that was loaded."""

import ctypes
import functools
import os
from pathlib import Path

from .objects import check_pointer, library, program_info

_KPROBE = 2  # BPF_PROG_TYPE_KPROBE
_GET_ATTACH_COOKIE = 174  # BPF_FUNC_get_attach_cookie
SYSFS = "/sys/kernel/btf/vmlinux"
_PLACES = (
    SYSFS,
    "/boot/vmlinux-{0}",
    "/lib/modules/{0}/vmlinux-{0}",
    "/lib/modules/{0}/build/vmlinux",
    "/usr/lib/modules/{0}/kernel/vmlinux",
    "/usr/lib/debug/boot/vmlinux-{0}",
    "/usr/lib/debug/boot/vmlinux-{0}.debug",
    "/usr/lib/debug/lib/modules/{0}/vmlinux",
)
"""btf__load_vmlinux_btf() in libbpf's btf.c."""


def of_kernel() -> Path | None:
    """The file in which libbpf finds the kernel's types; None if there is none."""
    for place in _PLACES:
        file = Path(place.format(os.uname().release))
        if file.exists():
            found = library().btf__parse(os.fsencode(file), None)
            library().btf__free(found)
            if found:
                return file
    return None


def of_program(fd: int) -> bytes:
    """What the kernel was given with a program. Raises LibbpfError."""
    size = ctypes.c_uint32()
    number = program_info(fd).btf_id
    found = check_pointer(library().btf__load_from_kernel_by_id(number), "BTF")
    data = check_pointer(library().btf__raw_data(found, ctypes.byref(size)), "BTF")
    raw = ctypes.string_at(data, size.value)
    library().btf__free(found)
    return raw


@functools.cache
def has_cookies() -> bool:
    """Whether the kernel can tell a program where it was attached, since 5.15 (82e6b1eee6a8, "bpf:
    Allow to specify user-provided bpf_cookie for BPF perf links"); asked as libbpf asks before it
    attaches USDT probes.
    """
    return bool(library().libbpf_probe_bpf_helper(_KPROBE, _GET_ATTACH_COOKIE, None) > 0)
