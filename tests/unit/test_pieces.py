"""An array that is mapped in pieces has each entry where the whole array has it."""

import mmap
import os

from hypothesis import given
from hypothesis import strategies as st

from pgtrace.libbpf.mapped_array import Pieces


@given(st.integers(1, 200), st.integers(1, 200_000), st.data())
def test_each_entry_is_found(eights: int, count: int, data: st.DataObject) -> None:
    """Also the last, and what is written is shared."""
    stride = 8 * eights
    fd = os.memfd_create("array")
    os.ftruncate(fd, -(-stride * count // mmap.PAGESIZE) * mmap.PAGESIZE)
    pieces = Pieces(fd, stride, count)
    for index in [*data.draw(st.lists(st.integers(0, count - 1), max_size=5)), 0, count - 1]:
        os.pwrite(fd, index.to_bytes(8, "little"), index * stride)
        memory, at = pieces.at(index)
        assert int.from_bytes(memory[at : at + 8], "little") == index
        memory[at : at + 8] = bytes(8)
        assert os.pread(fd, 8, index * stride) == bytes(8)
    assert len(os.listdir("/proc/self/fd")) < 60  # noqa: PTH208
    pieces.close()
    os.close(fd)
