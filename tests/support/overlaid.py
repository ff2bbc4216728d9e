"""Becomes a user that works in an overlay of its own user namespace, over FUSE that never answers
for one name. An overlay looks below with the rights of who mounted it: so others may look there.
"""

import ctypes
import os
import signal
import sys

from never_answers import LIBC, NODEV, NOSUID, PDEATHSIG, become, serve

NEWUSER, NEWNS, DUMPABLE = 0x10000000, 0x00020000, 4


def mount(kind: str, place: str, flags: int, options: str) -> None:
    if LIBC.mount(b"none", place.encode(), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), f"{kind} cannot be mounted")


def main() -> None:
    uid, program = int(sys.argv[1]), sys.argv[2]
    for name in "below", "empty", "data":
        os.mkdir(name)  # noqa: PTH102
        os.chown(name, uid, uid)
    os.mknod("fuse", 0o20666, os.stat("/dev/fuse").st_rdev)  # noqa: PTH116  # as udev has it
    os.chmod("fuse", 0o666)  # noqa: PTH101
    become(uid)
    LIBC.prctl(DUMPABLE, 1)
    if LIBC.unshare(NEWUSER | NEWNS):
        raise OSError(ctypes.get_errno(), "no user namespace")
    for name, text in ("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {uid} 1"):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
            file.write(text)
    device, parent, place = os.open("fuse", os.O_RDWR), os.getpid(), os.getcwd()  # noqa: PTH109
    mount("fuse", "below", NOSUID | NODEV, f"fd={device},rootmode=40000,user_id=0,group_id=0")
    if os.fork() == 0:
        LIBC.prctl(PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() == parent:
            serve(device, 0, b"postmaster.pid")
        os._exit(0)
    mount("overlay", "data", 0, f"lowerdir={place}/below:{place}/empty")
    os.chdir("data")
    os.execv(f"{place}/{program}", [program])


if __name__ == "__main__":
    main()
