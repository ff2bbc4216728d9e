"""What textual and rich import late: here at once, while the process may still read it."""

from contextlib import suppress
from importlib import import_module

from rich.cells import cell_len

_LATE = (
    "textual._ansi_theme",
    "textual._compositor",
    "textual.css.query",
    "textual.drivers.headless_driver",
    "textual.drivers.linux_driver",
    "textual.layouts.factory",
    "textual.layouts.horizontal",
    "textual.layouts.stream",
    "textual.layouts.vertical",
    "textual.pilot",
    "textual.scrollbar",
    "textual.widgets._input",
)
"""Of textual 8.2; others may have other names for what they import late, or import it early."""


def everything() -> None:
    """Import it: nobody may not be able to read root's virtual environment."""
    for name in _LATE:
        with suppress(ImportError):
            import_module(name)
    cell_len("日")  # loads rich's table of widths
