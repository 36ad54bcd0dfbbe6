"""Files of Iceberg tables by their location: in the lake's own store, or anywhere that pyiceberg's FileIO reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyiceberg.io import FileIO, load_file_io

from moulin.errors import MoulinError, NotFound, Unavailable
from moulin.iceberg.format.locations import location
from moulin.storage.store import Store


class Files:
    """Reads whole files. Files in `store` are read through it; `options` are pyiceberg's, for other addresses."""

    def __init__(self, store: Store | None = None, options: dict[str, str] | None = None) -> None:
        self._store, self._options = store, options or {}
        self._prefix = None if store is None else location(store, "x").removesuffix("x")
        self._io: FileIO | None = None

    def read(self, where: str) -> bytes:
        """All bytes of a file; NotFound if it does not exist."""
        if self._store is not None and self._prefix is not None and where.startswith(self._prefix):
            return self._store.get(where.removeprefix(self._prefix))
        local = local_path(where)
        try:
            if local is not None:
                return local.read_bytes()
            if self._io is None:
                self._io = load_file_io(self._options, where)
            with self._io.new_input(where).open() as stream:
                return stream.read()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise NotFound(f"There is no file {where}.") from None
        except (OSError, ValueError) as error:
            raise Unavailable(f"{where} cannot be read ({' '.join(str(error).split())[:200]}).") from None

    def open(self, where: str) -> Any:
        return pa.BufferReader(self.read(where))


def local_path(where: str) -> Path | None:
    """The local file at a location; None if it is elsewhere."""
    if where.startswith("file:"):
        return Path("/" + where.removeprefix("file:").lstrip("/"))
    return None if "://" in where else Path(where)


def find_metadata(where: str) -> str:
    """The metadata file of a table: `where` itself, or the newest in the folder of a table."""
    local = local_path(where)
    if where.endswith(".metadata.json") or local is None:
        return where
    if not local.is_dir() and Path(unquote(str(local))).is_dir():
        local = Path(unquote(str(local)))
    folder = local / "metadata"
    hint = folder / "version-hint.text"
    if hint.is_file():
        text = hint.read_text().strip()
        for name in (f"v{text}.metadata.json", f"{text}.metadata.json", text):
            if (folder / name).is_file():
                return str(folder / name)
    found = sorted(folder.glob("*.metadata.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    if not found:
        raise NotFound(f"{where} holds no Iceberg table: there is no metadata/*.metadata.json in it.")
    return str(found[-1])


__all__ = ["Files", "MoulinError", "find_metadata", "local_path"]
