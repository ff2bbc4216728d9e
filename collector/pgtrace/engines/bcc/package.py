"""bcc as distributions package it: found, and told from PyPI's package of that name."""

import importlib.util
import shlex
import sys
from pathlib import Path

from ...errors import UnsupportedError
from ...remedies import sudo_to_install, with_pip

_INSTALL = "apt-get install python3-bpfcc, or dnf install python3-bcc"
_DISTRIBUTIONS = (
    "/usr/lib/python3/dist-packages",
    f"/usr/lib/python3.{sys.version_info.minor}/site-packages",
)
"""Where Debian's Python and the others' have what is packaged."""


def find() -> Path:
    """The folder of the package. Raises UnsupportedError, with what to type, if it is not there."""
    spec = importlib.util.find_spec("bcc")
    if spec and spec.origin:
        folder = Path(spec.origin).parent
        if (folder / "libbcc.py").is_file():
            return folder
        raise UnsupportedError(
            f"the Python package bcc in {folder} is PyPI's, which has nothing to do with BPF: "
            f"{with_pip('uninstall', 'bcc')}, then {_INSTALL}"
        )
    there = next((p for p in _DISTRIBUTIONS if Path(p, "bcc", "libbcc.py").is_file()), None)
    if there and sys.prefix != sys.base_prefix:
        see = [*sudo_to_install(), "/usr/bin/python3", "-m", "venv", "--system-site-packages"]
        raise UnsupportedError(
            f"bcc is in {there}, which this virtual environment does not see: "
            f"{shlex.join([*see, sys.prefix])}"
        )
    raise UnsupportedError(f"bcc is not installed: {_INSTALL}")
