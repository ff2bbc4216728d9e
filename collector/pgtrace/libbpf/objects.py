"""libbpf's objects, maps and links as Python classes that close what they opened."""

import contextlib
import ctypes
import errno
import functools
import mmap
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from .. import stderr
from ..errors import UnsupportedError
from ..linux import tracepoints
from ..terminal_text import escape
from . import keeping_cpu, prototypes, uprobes
from .mapped_array import Pieces

_messages: list[str] = []
"""What libbpf said since the last call that failed: the reason of an error is only there."""
_listeners: list[Callable[[str], None]] = []
_PERF_EVENT = "anon_inode:[perf_event]"
_AT_ONCE = 4000
"""Records that are handled before somebody else's turn."""


@prototypes.PrintCallback  # type: ignore[untyped-decorator]
def _keep_message(level: int, template: bytes, arguments: int) -> int:
    if level <= 1:
        message = prototypes.format_message(template, arguments)
        _messages.append(message)
        del _messages[:-200]
        for listener in _listeners:
            listener(message)
    return 0


def print_messages() -> None:
    """From now on print what libbpf says, the verifier's words included, on stderr."""
    _listeners.append(lambda message: stderr.say(escape(message, lines=True)))


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library. Raises UnsupportedError in one line if it is missing or too old."""
    try:
        loaded = prototypes.load()
    except OSError as error:
        raise UnsupportedError(
            f"{prototypes.SONAME} is not installed: apt-get install libbpf1, "
            f"or dnf install libbpf ({error})"
        ) from None
    except AttributeError as error:
        raise UnsupportedError(f"{prototypes.SONAME} is too old: {error}; 1.0 is needed") from None
    loaded.libbpf_set_print(_keep_message)
    return loaded


@functools.cache
def _entries() -> ctypes.CDLL:
    return prototypes.load_for_entries()


def version() -> str:
    """libbpf's version, as "1.1"."""
    text: bytes = library().libbpf_version_string()
    return text.decode().removeprefix("v")


class LibbpfError(OSError):
    """A call of libbpf's failed. `log` holds what it said, the verifier's words included."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(number, f"{what}: {os.strerror(number)}")
        self.log = list(_messages)
        _messages.clear()


def check_pointer(pointer: int | None, what: str) -> int:
    """Raise LibbpfError for a null pointer."""
    if not pointer:
        raise LibbpfError(ctypes.get_errno() or errno.EINVAL, what)
    return pointer


def check(result: int, what: str) -> None:
    """Raise LibbpfError for a negative result."""
    if result < 0:
        raise LibbpfError(-result, what)


def program_info(fd: int) -> prototypes.ProgramInfo:
    """What the kernel tells of a program; 0 is what it does not. Raises LibbpfError."""
    info = prototypes.ProgramInfo()
    size = ctypes.c_uint32(ctypes.sizeof(info))
    result = library().bpf_obj_get_info_by_fd(fd, ctypes.byref(info), ctypes.byref(size))
    check(result, "program")
    return info


class Map:
    """One map of a loaded object."""

    def __init__(self, pointer: int, name: str) -> None:
        self._pointer = pointer
        self.name = name

    @functools.cached_property
    def fd(self) -> int:
        """Its file descriptor, owned by the object; only once that is loaded."""
        return int(library().bpf_map__fd(self._pointer))

    def set_max_entries(self, count: int) -> None:
        """Size it; only before the object is loaded."""
        check(library().bpf_map__set_max_entries(self._pointer, count), self.name)

    def set_initial(self, value: bytes) -> None:
        """Fill the start of a data section; only before the object is loaded."""
        size = ctypes.c_size_t()
        address = library().bpf_map__initial_value(self._pointer, ctypes.byref(size))
        if not address or size.value < len(value):
            raise LibbpfError(errno.EINVAL, self.name)
        ctypes.memmove(address, value, len(value))

    def memory(self) -> mmap.mmap:
        """The values of an array, shared with the kernel: what is read there is live."""
        return mmap.mmap(self.fd, self._stride * library().bpf_map__max_entries(self._pointer))

    def pieces(self) -> Pieces:
        """The same, mapped as far as it is looked at."""
        return Pieces(self.fd, self._stride, library().bpf_map__max_entries(self._pointer))

    @property
    def _stride(self) -> int:
        return int(library().bpf_map__value_size(self._pointer) + 7) & ~7

    def update(self, key: bytes | None, value: bytes) -> None:
        """Set one entry; of a queue, which has no keys, append."""
        result = _entries().bpf_map_update_elem(self.fd, key, value, 0)
        if result < 0:
            raise LibbpfError(-result, self.name)

    def value(self, key: bytes) -> bytes | None:
        """One entry; None if it is not there."""
        value = ctypes.create_string_buffer(self._stride)
        missing = _entries().bpf_map_lookup_elem(self.fd, key, value)
        return None if missing else value.raw[: library().bpf_map__value_size(self._pointer)]

    def is_empty(self) -> bool:
        """Of a queue, whether nothing is in it."""
        value = ctypes.create_string_buffer(self._stride)
        return bool(_entries().bpf_map_lookup_elem(self.fd, None, value))

    def delete(self, key: bytes) -> None:
        """Remove one entry, if it is there."""
        _entries().bpf_map_delete_elem(self.fd, key)


class Object:
    """A compiled object: open, choose its programs, size its maps, load, attach; then close."""

    def __init__(self, path: Path, types: Path | None = None) -> None:
        """`types` is BTF that stands for the kernel's own where its fields are looked up."""
        self._lib = library()
        self._links: list[Callable[[], object]] = []
        """What lets go of each."""
        self.multi = uprobes.has_multi()
        """Whether its programs for uprobes are attached to many places at once; and to none by a
        link of perf's then."""
        options = prototypes.OpenOptions(
            sz=ctypes.sizeof(prototypes.OpenOptions),
            btf_custom_path=os.fsencode(types) if types else None,
        )
        self._pointer = check_pointer(
            self._lib.bpf_object__open_file(os.fsencode(path), ctypes.byref(options)), str(path)
        )
        self._programs: dict[str, int] = {}
        program = None
        while program := self._lib.bpf_object__next_program(self._pointer, program):
            self._programs[self._lib.bpf_program__name(program).decode()] = program

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def choose(self, wanted: Callable[[str], bool]) -> None:
        """Load only the programs whose name is wanted."""
        for name, program in self._programs.items():
            self._lib.bpf_program__set_autoload(program, wanted(name))

    def map(self, name: str) -> Map:
        """A map by its name, or a data section by its ELF name."""
        pointer = self._lib.bpf_object__find_map_by_name(self._pointer, name.encode())
        return Map(check_pointer(pointer, name), name)

    def load(self) -> None:
        """Hand everything to the kernel. Raises LibbpfError, with the verifier's log in it."""
        _messages.clear()
        for program in self._programs.values():
            if self.multi and self._lib.bpf_program__section_name(program) == b"uprobe":
                self._lib.bpf_program__set_expected_attach_type(program, uprobes.MULTI)
        keeping_cpu.settle(self._programs.values())
        check(self._lib.bpf_object__load(self._pointer), "load")
        prototypes.trim_heap()  # 12 MB were the kernel's types, which libbpf has freed

    def run(self, program: str, *arguments: int) -> int:
        """Run a program of the kind of raw tracepoints once, with these arguments."""
        context = (ctypes.c_uint64 * len(arguments))(*arguments)
        options = prototypes.TestRunOptions(
            sz=ctypes.sizeof(prototypes.TestRunOptions),
            ctx_in=ctypes.addressof(context),
            ctx_size_in=ctypes.sizeof(context),
        )
        fd = self._lib.bpf_program__fd(self._programs[program])
        check(self._lib.bpf_prog_test_run_opts(fd, ctypes.byref(options)), program)
        return int(options.retval)

    def misses(self) -> int:
        """How often one of its programs was left out, because on that CPU it had been interrupted
        and had not ended yet. The kernel counts that since 5.12 (9ed9e9ba2337, "bpf: Count the
        number of times recursion was prevented"), of tracepoints and kprobes since 6.7
        (dd8657894c11, "bpf: Count missed stats in trace_call_bpf").
        """
        fds = map(self._lib.bpf_program__fd, self._programs.values())
        return sum(program_info(fd).recursion_misses for fd in fds if fd >= 0)

    def attach(self, program: str) -> None:
        """Attach where the program's section says."""
        self._hold(self._lib.bpf_program__attach(self._programs[program]), program)

    def attach_tracepoint(self, program: str, category: str, name: str) -> None:
        """Attach to a tracepoint. Not by libbpf's own function: it wants tracefs to be mounted."""
        what = f"{category}:{name}"
        try:
            event = tracepoints.open_tracepoint(category, name)
        except OSError as error:
            raise LibbpfError(error.errno or errno.EINVAL, what) from error
        try:
            link = self._lib.bpf_program__attach_perf_event(self._programs[program], event)
            self._hold(link, what)  # which owns the event from now on
        except LibbpfError:
            os.close(event)
            raise

    def attach_raw_tracepoint(self, program: str, name: str) -> None:
        """Attach to a tracepoint as the kernel calls it: it is let go of without a wait."""
        link = self._lib.bpf_program__attach_raw_tracepoint(self._programs[program], name.encode())
        self._hold(link, name)

    def attach_usdt(self, program: str, pid: int, file: int, provider: str, name: str) -> None:
        """Attach to every site of a USDT probe of an open file, in that process alone; its
        semaphore is raised.

        For kernels without cookies, in which libbpf tells sites apart by their addresses.
        """
        link = self._lib.bpf_program__attach_usdt(
            self._programs[program],
            pid,
            _path(file),
            provider.encode(),
            name.encode(),
            None,
        )
        self._hold(link, f"{provider}:{name}")

    def attach_places(
        self,
        program: str,
        pid: int,
        file: int,
        places: Sequence[uprobes.Place],
        *,
        returns: bool = False,
    ) -> None:
        """Attach to places of an open file, or to the return of functions that begin there; pid -1:
        in all processes."""
        path = _path(file)
        if self.multi and places:
            fd = self._lib.bpf_program__fd(self._programs[program])
            try:
                link = uprobes.link(fd, path, pid, places, returns=returns)
            except OSError as error:
                raise LibbpfError(error.errno or errno.EINVAL, program) from error
            self._links.append(functools.partial(os.close, link))
            return
        for place in places:
            options = prototypes.UprobeOptions(
                sz=ctypes.sizeof(prototypes.UprobeOptions),
                ref_ctr_offset=place.semaphore,
                bpf_cookie=place.cookie,
                retprobe=returns,
            )
            self._hold(
                self._lib.bpf_program__attach_uprobe_opts(
                    self._programs[program], pid, path, place.offset, ctypes.byref(options)
                ),
                program,
            )

    @property
    def attached(self) -> int:
        """How many links are held."""
        return len(self._links)

    def since(self, before: int) -> list[Callable[[], object]]:
        """The links but the first `before`, for let_go()."""
        return self._links[before:]

    def let_go(self, links: Sequence[Callable[[], object]]) -> None:
        """Detach these, as far as they are there, and keep the others."""
        for link in links:
            if link in self._links:
                self._links.remove(link)
                link()

    def detach(self, keep: int = 0) -> None:
        """Detach all but the first `keep` links; what was counted can still be read."""
        while len(self._links) > keep:
            self._links.pop()()

    def close(self, *, wait: bool = False) -> None:
        """Detach and give everything back to the kernel.

        The kernel takes a grace period for each link: without `wait` a child process waits for
        them, and ends.
        """
        if self._links and wait:
            _all_at_once(self._links)
            self._links.clear()
        elif self._links:
            with _held_by_a_child():
                self.detach()
        if self._pointer:
            self._lib.bpf_object__close(self._pointer)
            self._pointer = 0

    def _hold(self, link: int | None, what: str) -> None:
        pointer = check_pointer(link, what)
        self._links.append(functools.partial(self._lib.bpf_link__destroy, pointer))


def _path(file: int) -> bytes:
    """A name by which the kernel, and libbpf, find this file and no other: what probes are put into
    is what their offsets are from."""
    return b"/proc/self/fd/%d" % file


@contextlib.contextmanager
def _held_by_a_child() -> Iterator[None]:
    """Let a process that nobody waits for be the last to close what is closed in the block. Where
    there can be none, who closes it waits for the kernel.
    """
    with contextlib.ExitStack() as ends:
        with contextlib.suppress(OSError):
            reader, writer = os.pipe()
            ends.callback(os.close, writer)
            try:
                child = os.fork()
                if child == 0:
                    _hold_links(reader)
            finally:
                os.close(reader)
            os.waitpid(child, 0)
        yield


def _hold_links(reader: int) -> NoReturn:
    """In a child, whose own child does it."""
    try:
        os.setsid()
        if os.fork() == 0:
            links = _keep_only_links(reader)
            os.read(reader, 1)  # until the parent has let go of them, or died
            _all_at_once([functools.partial(os.close, link) for link in links])
    finally:
        os._exit(0)


def _all_at_once(links: Iterable[Callable[[], object]]) -> None:
    """Let go of each in a thread of its own: so that they wait for the same grace periods."""
    threads = []
    for link in links:
        thread = threading.Thread(target=link)
        try:
            thread.start()
        except RuntimeError:  # there can be no more: then one after the other
            link()
        else:
            threads.append(thread)
    for thread in threads:
        thread.join()


def _keep_only_links(also: int) -> list[int]:
    """Close all other files: whoever waits for the end of a pipe must not wait for us. Return what
    has to be waited for.
    """
    links = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            what = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
            if what.startswith(("anon_inode:bpf_link", "anon_inode:bpf-link", _PERF_EVENT)):
                links.append(int(name))
            elif int(name) != also and "anon_inode" not in what:
                os.close(int(name))
    return links


class Ring:
    """A ring buffer's reading end; `handle` gets the bytes of each record."""

    def __init__(self, source: Map, handle: Callable[[bytes], None]) -> None:
        @prototypes.SampleCallback  # type: ignore[untyped-decorator]
        def sample(_context: int, data: int, size: int) -> int:
            handle(ctypes.string_at(data, size))
            self._left -= 1
            return 0 if self._left else -1  # which ends ring_buffer__consume() after this one

        self._left = 0
        self._sample = sample  # libbpf keeps the pointer only
        self._pointer = check_pointer(
            library().ring_buffer__new(source.fd, sample, None, None), source.name
        )

    def consume(self) -> bool:
        """Handle what is there; does not wait. Nothing once it is closed. Return whether some may
        be left: records may come as fast as they are handled, for ever.
        """
        self._left = _AT_ONCE
        if self._pointer:
            library().ring_buffer__consume(self._pointer)
        return not self._left

    def close(self) -> None:
        """Give back the memory."""
        if self._pointer:
            library().ring_buffer__free(self._pointer)
            self._pointer = 0
