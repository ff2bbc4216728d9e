"""The README's lines for installing, typed one by one on a machine like this one.

It is this machine's root with a layer of its own above, so that nothing is left here.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from child import OWN_MOUNTS
from hidden import ROOT

SECURE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""As distributions ship it in sudoers."""
SUDO = f"""#!/bin/sh
# What sudo leaves of the environment, and what pip needs to find its index here
for name in $(env | grep -oE '^(PIP_[A-Z_]+|SSL_CERT_[A-Z]+|[a-zA-Z]+_proxy)='); do
    value=$(printenv "${{name%=}}") && set -- "$name$value" "$@"
done
exec env -i HOME=/root TERM=dumb PATH={SECURE_PATH} "$@"
"""
LAYER = """
mount -t tmpfs -o size=1G,mode=755 none "$1" && cd "$1" && mkdir upper work root || exit
mount -t overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" overlay root || exit 77
for each in proc sys dev; do mount --rbind "/$each" "root/$each"; done
shift; exec chroot root "$@"
"""


@pytest.fixture(scope="module")
def clone() -> Iterator[Path]:
    """What a newcomer has cloned: nothing is built in it."""
    directory = Path(tempfile.mkdtemp(prefix="pgt-clone-", dir="/var/tmp"))
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "objects")
    shutil.copytree(ROOT, directory / "pgtrace", ignore=unwanted)
    yield directory / "pgtrace"
    shutil.rmtree(directory)


def commands() -> str:
    """All that is in the README's section, in its order."""
    section = (ROOT / "README.md").read_text().partition("\n## Install it\n")[2]
    section = section.partition("\n## ")[0]
    return "".join(re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))


def test_the_lines_of_the_readme_install_it(clone: Path, tmp_path: Path) -> None:
    """sudo finds it afterwards, and so does everybody."""
    lines = commands()
    assert "\nsudo pgtrace doctor\n" in lines
    script = f"""set -e
mkdir -p /usr/local/bin && printf %s {shlex.quote(SUDO)} >/usr/local/bin/sudo
chmod 755 /usr/local/bin/sudo && rm -rf /opt/pgtrace /usr/local/bin/pgtrace
echo 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/99unattended
cd {clone}
{lines}
echo "found: $(command -v pgtrace)"
cd / && pgtrace --version && sudo pgtrace lab --help
"""
    environment = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    done = subprocess.run(
        [*OWN_MOUNTS, "sh", "-c", LAYER, "sh", tmp_path, "sh", "-c", script],
        env=environment | {"PATH": SECURE_PATH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip(f"the kernel lays nothing above this root: {done.stderr}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  ok  object file: pgtrace.bpf.o" in done.stdout
    assert "found: /usr/local/bin/pgtrace" in done.stdout
    assert not Path("/opt/pgtrace").exists()
