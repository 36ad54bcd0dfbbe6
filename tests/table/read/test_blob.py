"""Values of binary columns as files: only their pages are read."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pytest

from moulin.errors import InvalidInput, NotFound
from moulin.lake import Lake
from moulin.storage.local import LocalStore
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, SERVED

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)


def image(n: int, size: int = 40) -> bytes:
    return bytes([n]) * size + str(n).encode()


@pytest.fixture
def photos(lake: Lake) -> Table:
    columns = [("id", "long", False), ("name", "string"), ("image", "binary")]
    return lake.create_table("shop.photos", columns, primary_key=["id"])


@everywhere
def test_a_value_is_read_as_a_file_wherever_its_row_is(photos: Table) -> None:
    photos.append([{"id": n, "name": f"n{n}", "image": None if n == 3 else image(n)} for n in range(6)])
    photos.put({"id": 4, "name": "new", "image": b"changed"})
    photos.delete(5)
    for _ in range(3):
        with photos.blob(2, "image") as found:
            assert (found.read(3), found.tell(), found.size) == (b"\2\2\2", 3, 41)
            assert found.seek(-1, io.SEEK_END) == 40
            assert found.read() == b"2"
            assert found.read() == b""
            assert found.seek(39) == 39
            assert io.BufferedReader(found).read() == b"\0022"
        assert found.closed
        assert photos.blob(4, "image").read() == b"changed"
        nothing = photos.blob(3, "image")
        assert (nothing.is_null, nothing.read(), nothing.size) == (True, b"", 0)
        for missing in (5, 77):
            with pytest.raises(NotFound, match=f"{missing}"):
                photos.blob(missing, "image")
        photos.flush()
        row_id = photos.scan(["_row_id"], where="id = 2").to_pylist()[0]["_row_id"]
        assert photos.blob(column="image", row_id=row_id).read() == image(2)
        with pytest.raises(NotFound, match="_row_id"):
            photos.blob(column="image", row_id=1_000_000)
        assert photos.at(version=photos.version).blob(2, "image").read() == image(2)
        photos.compact(everything=True)


def test_what_is_no_blob_is_refused(photos: Table, lake: Lake) -> None:
    photos.append([{"id": 1, "name": "n", "image": b"x"}])
    with pytest.raises(InvalidInput, match="of type string"):
        photos.blob(1, "name")
    with pytest.raises(InvalidInput, match="Did you mean 'image'"):
        photos.blob(1, "imgae")
    with pytest.raises(InvalidInput, match="either a key or a row_id"):
        photos.blob(1, "image", row_id=0)
    closed = photos.blob(1, "image")
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        closed.read()


def test_an_open_blob_is_read_after_its_row_is_gone(photos: Table) -> None:
    photos.append([{"id": 1, "name": "n", "image": image(1)}])
    with photos.blob(1, "image") as found:
        photos.delete_where("id = 1")
        photos.compact(everything=True)
        assert found.read() == image(1)


@pytest.mark.parametrize("open_lake", [BACKENDS[0]], indirect=True)
def test_pages_of_other_values_are_not_read(photos: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 values of 64 KiB, which do not compress, one is read."""
    rng = random.Random(1)
    values = {n: rng.randbytes(64 << 10) for n in range(64)}
    photos.append([{"id": n, "name": "x" * 50, "image": value} for n, value in values.items()])
    photos.blob(7, "image").read()  # footers and key indexes are read once
    read: list[int] = []
    opened = LocalStore.reader

    class Counted(io.RawIOBase):
        def __init__(self, file: pa.NativeFile) -> None:
            self._file = file

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            return int(self._file.seek(offset, whence))

        def tell(self) -> int:
            return int(self._file.tell())

        def read(self, size: int = -1) -> bytes:
            data: bytes = self._file.read(None if size < 0 else size)
            read.append(len(data))
            return data

    monkeypatch.setattr(
        LocalStore, "reader", lambda store, *more: pa.PythonFile(Counted(opened(store, *more)), mode="r")
    )
    with photos.blob(40, "image") as found:
        assert sum(read) == 0
        assert found.read() == values[40]
    assert 64 << 10 <= sum(read) < 300 << 10
