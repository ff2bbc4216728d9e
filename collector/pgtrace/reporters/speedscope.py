"""Where time went as a file of speedscope, a viewer of flame graphs:
https://www.speedscope.app/file-format-schema.json.
"""

from collections.abc import Iterator

import msgspec

from .. import __version__
from ..model.capture import Capture
from .sections.stacks import stacks
from .view import View

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def report(capture: Capture, _: View) -> Iterator[str]:
    """Yield it: one profile, in nanoseconds, those stacks first that took longest. They have no
    order in time. Raise UsageError if time was not measured.
    """
    found = sorted(stacks(capture).items(), key=lambda item: (-item[1], item[0]))
    names = list(dict.fromkeys(frame for frames, _ in found for frame in frames))
    numbers = {name: number for number, name in enumerate(names)}
    title = f"pgtrace, {capture.started}"
    profile = {
        "type": "sampled",
        "name": title,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(ns for _, ns in found),
        "samples": [[numbers[frame] for frame in frames] for frames, _ in found],
        "weights": [ns for _, ns in found],
    }
    yield msgspec.json.encode(
        {
            "$schema": _SCHEMA,
            "name": title,
            "exporter": f"pgtrace@{__version__}",
            "shared": {"frames": [{"name": name} for name in names]},
            "profiles": [profile],
        }
    ).decode()
    yield "\n"
