"""Paths as a process has them whose root is another than ours."""

from collections import deque
from pathlib import Path, PurePosixPath

_MOST_LINKS = 40  # MAXSYMLINKS, include/linux/namei.h


def inside(root: Path, location: str) -> Path:
    """Follow symbolic links as a process does whose root that is; `location` is absolute there."""
    ahead = deque(PurePosixPath(location).parts[1:])
    path: list[str] = []
    links = 0
    while ahead:
        part = ahead.popleft()
        if part == "..":
            del path[-1:]
            continue
        try:
            target = PurePosixPath(root.joinpath(*path, part).readlink())
        except OSError:
            path.append(part)
            continue
        links += 1
        if links > _MOST_LINKS:
            break
        if target.is_absolute():
            path.clear()
        ahead.extendleft(reversed(target.parts[target.is_absolute() :]))
    return root.joinpath(*path)
