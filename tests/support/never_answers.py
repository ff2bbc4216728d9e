"""Becomes a user that runs a program, beside a file system of its own that never answers a read.

As fusermount(1) does it, that is mounted by root for that user alone: nobody else may look into it.
The program has its only file as an argument behind --held-up, before what is given for it.
"""

import ctypes
import os
import signal
import struct
import sys
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
ATTRIBUTES = struct.Struct("=6Q10I")
LOOKUP, GETATTR, OPEN, READ, STATFS, INIT, INTERRUPT = 1, 3, 14, 15, 17, 26, 36
NOSUID, NODEV, PDEATHSIG = 2, 4, 1
ENOENT, ENOSYS = 2, 38


def attributes(inode: int, uid: int) -> bytes:
    mode = 0o40755 if inode == 1 else 0o100755
    return ATTRIBUTES.pack(inode, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, uid, uid, 0, 4096, 0)


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def serve(device: int, uid: int, never: bytes = b"") -> None:
    """By include/uapi/linux/fuse.h. With `never` there is no file; of that name, no answer."""
    while True:
        request = os.read(device, 1 << 17)
        _, code, unique, node = struct.unpack_from("=IIQQ", request)
        answer, error = b"", 0
        if code == INIT:
            answer = struct.pack("=4I2H2I2H8I", 7, 31, 0, 0, 12, 10, 4096, 1, 0, 0, *[0] * 8)
        elif code == LOOKUP and never:
            if request[40:].rstrip(b"\0") == never:
                continue
            error = ENOENT
        elif code == STATFS:
            answer = struct.pack("=5Q10I", 1, 1, 1, 1, 1, 4096, 255, 4096, *[0] * 7)
        elif code == LOOKUP:
            answer = struct.pack("=4Q2I", 2, 0, 100, 100, 0, 0) + attributes(2, uid)
        elif code == GETATTR:
            answer = struct.pack("=Q2I", 100, 0, 0) + attributes(node, uid)
        elif code == OPEN:
            answer = struct.pack("=Q2I", 1, 0, 0)
        elif code in {READ, INTERRUPT}:
            continue
        else:
            error = ENOSYS
        os.write(device, struct.pack("=IiQ", 16 + len(answer), -error, unique) + answer)


def main() -> None:
    uid, program, *arguments = int(sys.argv[1]), *sys.argv[2:]
    place = tempfile.mkdtemp(prefix="pgtrace-fuse-", dir=".")
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={uid},group_id={uid}".encode()
    if LIBC.mount(b"never", place.encode(), b"fuse", NOSUID | NODEV, options):
        raise OSError(ctypes.get_errno(), "fuse cannot be mounted")
    os.chmod(".", 0o755)  # noqa: PTH101
    parent = os.getpid()
    if os.fork() == 0:
        become(uid)
        LIBC.prctl(PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() == parent:
            serve(device, uid)
        os._exit(0)
    become(uid)
    os.execv(
        program, [program, "--held-up", f"{place}/file", *arguments]
    )  # which closes the device


if __name__ == "__main__":
    main()
