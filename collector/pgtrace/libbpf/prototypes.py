"""The functions of libbpf.so.1 that pgtrace calls, as <bpf/libbpf.h> and <bpf/bpf.h> have them."""

import ctypes
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    PyDLL,
    Structure,
    c_bool,
    c_char_p,
    c_int,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

SONAME = "libbpf.so.1"
_LONGEST = 1 << 20
"""The verifier says why it refuses a program at the end of all that it says."""

PrintCallback = CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)
SampleCallback = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)


class OpenOptions(Structure):
    """struct bpf_object_open_opts, up to the last that is set."""

    _fields_ = (
        ("sz", c_size_t),
        ("object_name", c_char_p),
        ("relaxed_maps", c_bool),
        ("pin_root_path", c_char_p),
        ("unused", c_uint32),
        ("kconfig", c_char_p),
        ("btf_custom_path", c_char_p),
    )


class UprobeOptions(Structure):
    """struct bpf_uprobe_opts."""

    _fields_ = (
        ("sz", c_size_t),
        ("ref_ctr_offset", c_size_t),
        ("bpf_cookie", c_uint64),
        ("retprobe", c_bool),
        ("func_name", c_char_p),
    )


class ProgramInfo(Structure):
    """struct bpf_prog_info, up to the last that is asked for."""

    _fields_ = (
        ("before", c_uint8 * 128),
        ("btf_id", c_uint32),
        ("between", c_uint8 * 76),
        ("recursion_misses", c_uint64),
    )


class TestRunOptions(Structure):
    """struct bpf_test_run_opts."""

    _fields_ = (
        ("sz", c_size_t),
        ("data_in", c_void_p),
        ("data_out", c_void_p),
        ("data_size_in", c_uint32),
        ("data_size_out", c_uint32),
        ("ctx_in", c_void_p),
        ("ctx_out", c_void_p),
        ("ctx_size_in", c_uint32),
        ("ctx_size_out", c_uint32),
        ("retval", c_uint32),
        ("repeat", c_int),
        ("duration", c_uint32),
        ("flags", c_uint32),
        ("cpu", c_uint32),
    )


_PROTOTYPES = {
    "libbpf_version_string": (c_char_p, ()),
    "libbpf_set_print": (c_void_p, (PrintCallback,)),
    "libbpf_probe_bpf_helper": (c_int, (c_int, c_int, c_void_p)),
    "btf__load_from_kernel_by_id": (c_void_p, (c_uint32,)),
    "btf__parse": (c_void_p, (c_char_p, c_void_p)),
    "btf__raw_data": (c_void_p, (c_void_p, POINTER(c_uint32))),
    "btf__find_by_name_kind": (c_int, (c_void_p, c_char_p, c_uint32)),
    "btf__free": (None, (c_void_p,)),
    "bpf_obj_get_info_by_fd": (c_int, (c_int, c_void_p, POINTER(c_uint32))),
    "bpf_object__open_file": (c_void_p, (c_char_p, c_void_p)),
    "bpf_object__load": (c_int, (c_void_p,)),
    "bpf_object__close": (None, (c_void_p,)),
    "bpf_object__next_program": (c_void_p, (c_void_p, c_void_p)),
    "bpf_object__find_map_by_name": (c_void_p, (c_void_p, c_char_p)),
    "bpf_prog_load": (c_int, (c_int, c_char_p, c_char_p, c_void_p, c_size_t, c_void_p)),
    "bpf_program__name": (c_char_p, (c_void_p,)),
    "bpf_program__section_name": (c_char_p, (c_void_p,)),
    "bpf_program__set_expected_attach_type": (c_int, (c_void_p, c_int)),
    "bpf_program__insns": (c_void_p, (c_void_p,)),
    "bpf_program__insn_cnt": (c_size_t, (c_void_p,)),
    "bpf_program__fd": (c_int, (c_void_p,)),
    "bpf_prog_test_run_opts": (c_int, (c_int, POINTER(TestRunOptions))),
    "bpf_program__set_autoload": (c_int, (c_void_p, c_bool)),
    "bpf_program__attach": (c_void_p, (c_void_p,)),
    "bpf_program__attach_perf_event": (c_void_p, (c_void_p, c_int)),
    "bpf_program__attach_raw_tracepoint": (c_void_p, (c_void_p, c_char_p)),
    "bpf_program__attach_usdt": (
        c_void_p,
        (c_void_p, c_int, c_char_p, c_char_p, c_char_p, c_void_p),
    ),
    "bpf_program__attach_uprobe_opts": (
        c_void_p,
        (c_void_p, c_int, c_char_p, c_size_t, POINTER(UprobeOptions)),
    ),
    "bpf_link__destroy": (c_int, (c_void_p,)),
    "bpf_map__fd": (c_int, (c_void_p,)),
    "bpf_map__set_max_entries": (c_int, (c_void_p, c_uint32)),
    "bpf_map__max_entries": (c_uint32, (c_void_p,)),
    "bpf_map__value_size": (c_uint32, (c_void_p,)),
    "bpf_map__initial_value": (c_void_p, (c_void_p, POINTER(c_size_t))),
    "ring_buffer__new": (c_void_p, (c_int, SampleCallback, c_void_p, c_void_p)),
    "ring_buffer__consume": (c_int, (c_void_p,)),
    "ring_buffer__free": (None, (c_void_p,)),
}

_OF_ENTRIES = {
    "bpf_map_update_elem": (c_int, (c_int, c_void_p, c_void_p, c_uint64)),
    "bpf_map_lookup_elem": (c_int, (c_int, c_void_p, c_void_p)),
    "bpf_map_delete_elem": (c_int, (c_int, c_void_p)),
}
"""Each takes a microsecond, and there are thousands of them at once."""


def load() -> CDLL:
    """Open the library. Raises OSError if it is not installed, AttributeError if too old."""
    return _declared(CDLL(SONAME, use_errno=True), _PROTOTYPES)


def load_for_entries() -> CDLL:
    """The same for entries of maps alone: its functions keep the interpreter's lock, which another
    thread would have for up to 5 ms before they could return."""
    return _declared(PyDLL(SONAME), _OF_ENTRIES)


def _declared(library: CDLL, prototypes: dict[str, tuple[Any, tuple[Any, ...]]]) -> CDLL:
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def format_message(template: bytes, arguments: int) -> str:
    """Expand a message that libbpf passes as a printf format and a va_list."""
    libc = CDLL(None)
    libc.vsnprintf.argtypes = (c_char_p, c_size_t, c_char_p, c_void_p)
    buffer = ctypes.create_string_buffer(_LONGEST)
    libc.vsnprintf(buffer, len(buffer), template, arguments)
    return buffer.value.decode(errors="replace").rstrip()


def trim_heap() -> None:
    """Give the system back what malloc() keeps of what was freed; as glibc alone can."""
    trim = getattr(CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


__all__ = [
    "OpenOptions",
    "PrintCallback",
    "ProgramInfo",
    "SampleCallback",
    "TestRunOptions",
    "UprobeOptions",
    "format_message",
    "load",
    "load_for_entries",
    "trim_heap",
]
