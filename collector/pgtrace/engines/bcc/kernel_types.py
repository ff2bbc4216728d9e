"""The kernel's types from its headers, compiled by bcc: what stands in for the kernel's BTF."""

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from ... import interrupts, stderr, sudo
from ...errors import PermissionDeniedError, UnsupportedError
from ...linux import whose_path
from ...terminal_text import escape
from . import compile_types, kernel_headers
from . import package as bcc_package

SOURCE = Path(__file__).parents[2] / "objects" / "types.bcc.c"
_ROOT = Path(__file__).parents[3]
_SHORT_OF = 64 << 20
"""Bytes: unpacked, the headers that a kernel brings along take nearly as much."""
verbose = False
"""Print what the compiler prints."""


@functools.cache
def compiled() -> Path:
    """A file in memory with their BTF, which is there while this process is.

    Raises UnsupportedError or PermissionDeniedError: what is missing, and what to type.
    """
    package = bcc_package.find()
    packed = kernel_headers.are_packed()
    memory = os.memfd_create("pgtrace-types")
    if not packed:
        _compile(package, memory, None)
        return Path(f"/proc/self/fd/{memory}")
    temporary = whose_path.temporary()
    try:
        # bcc leaves what it unpacks, and takes what it finds: nobody else's, and not for long
        with (
            interrupts.cleaned_up(),
            tempfile.TemporaryDirectory(prefix="pgtrace-headers-", dir=temporary) as directory,
        ):
            _compile(package, memory, directory)
    except OSError as error:
        raise _full(str(temporary)) from error
    return Path(f"/proc/self/fd/{memory}")


def _compile(package: Path, memory: int, directory: str | None) -> None:
    """`directory` is where bcc may unpack headers."""
    path = [str(_ROOT), str(package.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    if directory:
        environment["TMPDIR"] = directory
    # -P: what lies in the working directory, which may be anybody's, is not imported
    module = [sys.executable, "-P", "-m", compile_types.__name__]
    ended = subprocess.run(
        [*module, str(SOURCE), str(memory)],
        env=environment,
        pass_fds=[memory],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    said = ended.stdout.decode(errors="replace").strip()
    if verbose and said:
        stderr.say(escape(said, lines=True))
    if ended.returncode:
        if directory and ("No space left" in said or shutil.disk_usage(directory).free < _SHORT_OF):
            raise _full(str(Path(directory).parent))
        raise _refusal(ended.returncode, said)


def _refusal(code: int, said: str) -> UnsupportedError | PermissionDeniedError:
    lines = said.splitlines() or ["it said nothing"]
    if code == compile_types.NO_LIBRARY:
        return UnsupportedError(
            f"bcc cannot be loaded: {lines[-1]}; its libraries: "
            "apt-get install --reinstall libbpfcc, and apt-get --fix-broken install"
        )
    if code == compile_types.NOT_LOADED:
        what = f"the kernel does not take what bcc compiled: {lines[-1]}"
        if "not permitted" in what:
            return PermissionDeniedError(f"{what}. {sudo.how()}")
        return UnsupportedError(f"{what} (run again with -v for more)")
    first = next((line for line in lines if "error:" in line), lines[-1])
    if code < 0:
        first = f"it ended by {signal.Signals(-code).name}"
    return UnsupportedError(
        f"bcc could not compile the kernel's types: {first} (run again with -v for all of it)"
    )


def _full(directory: str) -> UnsupportedError:
    return UnsupportedError(
        f"{directory} is full: bcc unpacks the kernel's headers there, {_SHORT_OF >> 20} MiB; "
        "make room, or set TMPDIR to a folder that has it"
    )
