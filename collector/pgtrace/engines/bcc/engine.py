"""The bcc engine: the same object, where the kernel has no BTF. bcc compiles what it lacks."""

from pathlib import Path

from ...errors import UnsupportedError
from .. import EngineName, ProbeType, Request
from ..libbpf_engine import LibbpfEngine
from . import kernel_types

NO_FENTRY = "programs of this kind need the kernel's own BTF, which bcc cannot replace"
NO_URING = "its tracepoints' structures are in no header, which the bcc engine goes by"


class BccEngine(LibbpfEngine):
    """As LibbpfEngine, but for fentry and io_uring."""

    name: EngineName = "bcc"

    def __init__(self, request: Request, way: ProbeType, *, no_usdt: bool = False) -> None:
        if way == "fentry":
            raise UnsupportedError(f"reads by {way}: {NO_FENTRY}")
        super().__init__(request, way, no_usdt=no_usdt)

    def _types(self) -> Path:
        return kernel_types.compiled()

    def _uring_programs(self) -> str:
        return NO_URING
