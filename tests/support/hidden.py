"""Folders hidden in a mount namespace, without what the tests run from: it may be below them."""

import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def hide(place: Path | str, options: str = "mode=1777") -> str:
    """Shell commands that hide a folder behind an empty tmpfs with these mount options.

    For a mount namespace of one's own. The clone and its interpreter stay where they are.
    """
    needed = {ROOT, Path(sys.prefix)}
    through = [
        shlex.quote(str(folder))
        for folder in needed
        if folder.is_relative_to(place) and not needed & set(folder.parents)
    ]
    steps = [f"exec {fd}<{folder}" for fd, folder in enumerate(through, 8)]
    steps += [f"mount -t tmpfs -o {options} none {shlex.quote(str(place))}"]
    for fd, folder in enumerate(through, 8):
        # Not canonicalised, which would make of it the name of what is hidden
        steps += [f"mkdir -p {folder}", f"mount -c --bind /proc/self/fd/{fd} {folder}"]
        steps += [f"exec {fd}<&-"]
    return "; ".join(steps)
