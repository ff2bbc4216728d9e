"""What every test may use, one plugin per subject."""

import signal
from typing import Any

pytest_plugins = (
    "fix_markers", "fix_engines", "fix_cluster", "fix_reader", "fix_storage", "fix_awake",
    "fix_chromium",
)  # fmt: skip


def pytest_configure() -> None:
    # A time limit ends pytest by SIGTERM: servers and files are to be removed then as well.
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
