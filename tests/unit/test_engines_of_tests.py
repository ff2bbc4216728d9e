"""By which engines and probe types a test runs: fix_engines, on a test run of its own."""

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

TESTS = """
import pytest

@pytest.mark.vm
def test_of_reads(way): pass

@pytest.mark.vm(tracepoints=True, core=True)
@pytest.mark.parametrize("call", ["pread"])
def test_of_each(way, call): pass

@pytest.mark.vm
@pytest.mark.core
def test_of_queries(): pass

@pytest.mark.vm(engines=["libbpf"])
def test_of_no_engine(): pass

@pytest.mark.vm
@pytest.mark.real_time
def test_of_time(): pass

def test_of_the_host(way): pass
"""
MARKERS = """
[pytest]
markers =
    pg(version): .
    kernel(version): .
    vm(tracepoints, core, engines): .
    core: .
    real_time: .
"""
BY_LIBBPF = [
    "of_reads[libbpf-fentry]",
    "of_reads[libbpf-kprobe]",
    "of_each[libbpf-fentry-pread]",
    "of_each[libbpf-tracepoint-pread]",
    "of_each[libbpf-kprobe-pread]",
    "of_queries[libbpf]",
    "of_no_engine[libbpf]",
]
BY_BCC = [
    "of_reads[bcc-kprobe]",
    "of_each[bcc-tracepoint-pread]",
    "of_each[bcc-kprobe-pread]",
    "of_queries[bcc]",
]
CORE = [
    "of_each[libbpf-fentry-pread]",
    "of_each[libbpf-kprobe-pread]",
    "of_queries[libbpf]",
    "of_each[bcc-kprobe-pread]",
    "of_queries[bcc]",
]
ON_THE_HOST = ["of_reads", "of_each[pread]", "of_queries", "of_no_engine", "of_time"]


@pytest.mark.parametrize(
    ("release", "marker", "runs"),
    [
        ("5.10.0-46-amd64", "vm", [one for one in BY_LIBBPF if "fentry" not in one] + BY_BCC),
        ("6.1.0-56-amd64", "vm", BY_LIBBPF + BY_BCC),
        ("6.1.0-56-amd64", "core", CORE),
        ("6.12.117+deb13-amd64", "vm", BY_LIBBPF),
        (None, "vm", ON_THE_HOST),
    ],
)
def test_runs(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    release: str | None,
    marker: str,
    runs: list[str],
) -> None:
    """One engine after the other, so that each is set up once; on the host no word of them."""
    monkeypatch.delenv("VM_SHARE", raising=False)
    support = Path(__file__).parents[1] / "support"
    monkeypatch.setenv("PYTHONPATH", f"{support}:{pytester.path}")
    of_kernel = ""
    if release:
        monkeypatch.setenv("VM_SHARE", "/tmp")
        of_kernel = f"import platform\nplatform.release = lambda: {release!r}"
    pytester.makeini(MARKERS)
    pytester.makepyfile(test_it=TESTS, of_kernel=of_kernel)
    plugins = [f"-p{name}" for name in ("of_kernel", "fix_markers", "fix_engines")]
    result = pytester.runpytest_subprocess(*plugins, "--collect-only", "-q", "-m", marker)
    assert [line for line in result.outlines if "::" in line] == [
        f"test_it.py::test_{run}" for run in runs
    ]
