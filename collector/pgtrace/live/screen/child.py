"""The process that draws: it becomes nobody, with nothing but the terminal and its link."""

import os
import resource
import socket
import traceback
from pathlib import Path

from ... import stderr
from ...linux import unprivileged
from ..frame import Begin, Kind
from ..link import drawing_end

_MOST_MEMORY = 512 << 20
"""In bytes, beside what there is when it begins."""
_MOST_FILES = 64
_ENVIRONMENT = ("TERM", "COLORTERM", "NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG", "TERM_PROGRAM")


def draw(end: socket.socket, tab: Kind, verbose: bool) -> None:
    """Draw what comes through `end` until somebody leaves, or nobody traces any more.

    Raises SystemExit, once that is said, if it cannot.
    """
    try:
        _draw(end, tab)
    except Exception as error:
        _say(error, verbose)
        raise SystemExit(1) from error


def _draw(end: socket.socket, tab: Kind) -> None:
    import gc

    gc.freeze()  # what is the parent's is never to be closed here
    gc.enable()
    os.dup2(1, 2)  # textual draws on stderr, which may be a file
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    os.environ.clear()  # LINES and COLUMNS may be another terminal's, TEXTUAL_… names files
    os.environ.update(kept)

    from . import imported
    from .app import TopApp
    from .lines import Lines
    from .plain import has_utf8

    imported.everything()
    _become_nobody()
    link = drawing_end(end)
    begin = link.wait()
    if not isinstance(begin, Begin):
        return
    Lines.ascii_only = not has_utf8()
    app = TopApp(begin, link, tab)
    app.run()
    if app.failure:
        raise app.failure


def _become_nobody() -> None:
    memory = unprivileged.mapped() + _MOST_MEMORY
    unprivileged.become_nobody()
    unprivileged.limit(
        {
            resource.RLIMIT_AS: memory,
            resource.RLIMIT_NOFILE: _MOST_FILES,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_CORE: 0,
        }
    )


def _say(failure: Exception, verbose: bool) -> None:
    """Values are not told: they may be somebody's data."""
    if verbose:
        traceback.print_exception(failure)
    place = traceback.extract_tb(failure.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    what = f"{type(failure).__name__} in {where}"
    stderr.say(f"pgtrace: unexpected error while drawing: {what}")
