"""The tests of tests/integration can be imported here, to run under another kernel."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
