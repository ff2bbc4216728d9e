"""pgtrace: every read a PostgreSQL query caused, how long it took, and where it was served."""

TYPE_CHECKING = False  # as typing has it, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

    from .files.documents import load as load
    from .model.capture import Capture as Capture
    from .model.histogram import Histogram as Histogram
    from .tracing.tracer import trace as trace

__all__ = ["Capture", "Histogram", "load", "trace"]
__version__ = "0.1.0"

_HOMES = {
    "Capture": "model.capture",
    "Histogram": "model.histogram",
    "load": "files.documents",
    "trace": "tracing.tracer",
}


def __getattr__(name: str) -> "Any":
    """Import the public names when they are first used: `pgtrace --help` needs none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pgtrace' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
