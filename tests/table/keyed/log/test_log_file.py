"""A process that is killed while it copies into a log's mapped memory leaves a torn tail, never a damaged log."""

from __future__ import annotations

import mmap
import os
import tempfile
from itertools import chain
from pathlib import Path
from uuid import UUID

import hypothesis.strategies as st
from hypothesis import given

from moulin.formats.wal import WalHeader, encode_header, frame, read_wal, seed_of
from moulin.table.keyed.log.log_file import LogFile

HEADER = encode_header(WalHeader(UUID(int=7), 0, 1, 1))
FIRST = frame(seed_of(HEADER), len(HEADER), b"first")
START = len(HEADER) + len(FIRST)


class Recorder(mmap.mmap):
    """Remembers what is copied, call by call."""

    copies: list[tuple[int, bytes]]

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        self.copies.append((self.tell(), bytes(data)))
        return super().write(data)


def copies_of(batches: list[list[bytes]]) -> tuple[bytes, list[tuple[int, bytes]]]:
    """The bytes of the file before anything is copied into its memory, and each copy: where, and what."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / "file"
        file = LogFile(os.open(path, os.O_RDWR | os.O_CREAT), ahead=True)
        file.append(HEADER)
        file.write(len(HEADER), [FIRST])
        offset = START
        before = path.read_bytes()
        recorder = Recorder(file.fd, 1 << 20)
        recorder.copies = []
        recorder.seek(offset)
        assert file._map is not None
        file._map.close()
        file._map = recorder
        for batch in batches:
            frames = []
            at = offset
            for payload in batch:
                frames.append(frame(seed_of(HEADER), at, payload))
                at += len(frames[-1])
            file.write(offset, frames)
            offset = at
        file.close()
        return before, recorder.copies


sizes = st.sampled_from([1, 900, 5_000, 70_000])


@given(
    batches=st.lists(st.lists(sizes, min_size=1, max_size=4), min_size=1, max_size=2),
    number=st.integers(0, 30),
    start=st.integers(0, 600) | st.integers(0, 70_000),
    length=st.just(70_007) | st.integers(0, 70_000),
)
def test_what_a_killed_copy_leaves_is_a_torn_tail_whatever_order_its_bytes_were_stored_in(
    batches: list[list[int]], number: int, start: int, length: int
) -> None:
    filled = [[bytes([1 + number]) * size for number, size in enumerate(batch)] for batch in batches]
    before, copies = copies_of(filled)
    written = [b"first", *chain.from_iterable(filled)]
    image = bytearray(before)
    killed = number % len(copies)
    for at, piece in copies[:killed]:
        image[at : at + len(piece)] = piece
    at, piece = copies[killed]
    stop = min(start + length, len(piece))
    image[at + start : at + stop] = piece[start:stop]
    found = read_wal(bytes(image), source="file", final=True).entries
    assert found == written[: len(found)]
    end, copied = START, START + sum(len(piece) for _, piece in copies[:killed])
    for number, payload in enumerate(written[1:], 1):
        end += len(frame(seed_of(HEADER), end, payload))
        assert end > copied or number < len(found), "an entry that was copied whole is there"
