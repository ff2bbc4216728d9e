"""How to type a command again as root, so that the line works as it is printed."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_PATH_OF_DEBIAN = f"/usr/local/sbin:/usr/local/bin:{_PATH}"
"""Where sudo looks, as distributions ship it: secure_path in sudoers. Red Hat's leaves out
/usr/local, as far back as RHEL 6."""
_OF_HOST = "run pgtrace as the host's root, with all capabilities"


def as_root(*arguments: str) -> str:
    """The command line of this process, or `pgtrace` with these arguments, below sudo.

    sudo does not look where a virtual environment is: what it would not find has its whole path.
    """
    return shlex.join(["sudo", *_command(), *(arguments or sys.argv[1:])])


def how(arguments: Sequence[str] = ()) -> str:
    """What to do about a capability that is missing: for root, sudo has no more."""
    if os.geteuid() == 0:
        return f"This root lacks capabilities, as in a container or below setpriv: {_OF_HOST}"
    return f"Type: {as_root(*arguments)}"


def type_or_else(*arguments: str) -> str:
    """The same as a line to type, or what else to do."""
    return as_root(*arguments) if os.geteuid() else _OF_HOST


def _command() -> list[str]:
    program = Path(sys.argv[0] or "-c")
    if program.name in {"-c", "-m", "__main__.py"}:
        return [sys.executable, "-m", "pgtrace"]
    command = program.absolute()
    if not os.access(command, os.X_OK):
        return [sys.executable, str(command)]
    path = _PATH_OF_DEBIAN if Path("/etc/debian_version").exists() else _PATH
    found = shutil.which(command.name, path=path)
    return [command.name if found and Path(found).samefile(command) else str(command)]
