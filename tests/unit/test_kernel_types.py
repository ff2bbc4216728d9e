"""What the compiling process ends with, in a line; and of which kernel some headers are."""

import platform
from pathlib import Path

import pytest

from pgtrace import sudo
from pgtrace.engines.bcc import compile_types, kernel_headers, kernel_types
from pgtrace.errors import PermissionDeniedError, UnsupportedError

SAID = "in file included from a.h\nb.h:1:2: error: no such thing\nc.h:3:4: error: nor this\nend"


@pytest.mark.parametrize(
    ("code", "said", "kind", "says"),
    [
        (compile_types.NO_LIBRARY, "x\nlibbcc.so.0: gone", UnsupportedError, "libbcc.so.0: gone"),
        (compile_types.NOT_COMPILED, SAID, UnsupportedError, "b.h:1:2: error: no such thing (run"),
        (compile_types.NOT_COMPILED, "one\ntwo", UnsupportedError, "types: two (run"),
        (-6, SAID, UnsupportedError, "it ended by SIGABRT"),
        (1, "", UnsupportedError, "it said nothing"),
        (compile_types.NOT_LOADED, "Operation not permitted", PermissionDeniedError, sudo.how()),
        (compile_types.NOT_LOADED, "BTF: Invalid argument", UnsupportedError, "Invalid argument"),
    ],
)
def test_why_it_ended(code: int, said: str, kind: type[Exception], says: str) -> None:
    error = kernel_types._refusal(code, said)
    assert type(error) is kind
    assert says in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("release", "ok"), [(platform.release(), True), ("5.4.0-1-amd64", False), (None, True)]
)
def test_of_which_kernel_headers_are(
    release: str | None, ok: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they do not say it, whoever names them has to know."""
    for name, text in (
        ("linux/kconfig.h", ""),
        ("generated/utsrelease.h", f'#define UTS_RELEASE "{release}"\n' if release else ""),
    ):
        (tmp_path / "include" / name).parent.mkdir(parents=True)
        (tmp_path / "include" / name).write_text(text)
    monkeypatch.setenv("BCC_KERNEL_SOURCE", str(tmp_path))
    if ok:
        assert kernel_headers.are_packed() is False
    else:
        with pytest.raises(UnsupportedError, match=f"those of kernel {release}"):
            kernel_headers.are_packed()
