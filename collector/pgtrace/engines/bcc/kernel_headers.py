"""The kernel's headers: where bcc looks for them, and whether they are this kernel's."""

import os
import re
import subprocess
from pathlib import Path

from ...errors import UnsupportedError

_ARCHIVE = Path("/sys/kernel/kheaders.tar.xz")
"""With CONFIG_IKHEADERS the kernel brings them along; bcc unpacks them."""
_HEADER = "include/linux/kconfig.h"
_RELEASE = "include/generated/utsrelease.h"


def are_packed() -> bool:
    """Whether bcc has to unpack them first. Raises UnsupportedError in one line if there are
    none, or only another kernel's.
    """
    release = os.uname().release
    install = f"apt-get install linux-headers-{release}, or dnf install kernel-devel-{release}"
    given = os.environ.get("BCC_KERNEL_SOURCE")
    built = Path(given or f"/lib/modules/{release}/build")
    # Distributions such as Debian have them in two folders, of which bcc knows
    places = [built] if given or not built.is_dir() else [built, built.with_name("source")]
    if any((place / _HEADER).is_file() for place in places):
        found = _release(built)
        if found and found != release:
            raise UnsupportedError(
                f"the headers in {built} are those of kernel {found}, but {release} runs: {install}"
            )
        return False
    if not _are_brought_along():
        raise UnsupportedError(f"the kernel's headers are not in {built}: {install}")
    return True


def _are_brought_along() -> bool:
    """Also in a module, which bcc loads for as long as it reads it."""
    if _ARCHIVE.exists():
        return True
    try:
        found = subprocess.run(["modprobe", "--dry-run", "--quiet", "kheaders"], check=False)
    except OSError:
        return False
    return found.returncode == 0


def _release(built: Path) -> str | None:
    """Of which kernel they are; None where they do not say."""
    try:
        text = (built / _RELEASE).read_text()
    except OSError:
        return None
    found = re.search(r'UTS_RELEASE "(.*)"', text)
    return found[1] if found else None
