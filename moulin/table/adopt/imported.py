"""The result of inspecting an address for an import: the table to create, and its files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyroaring import BitMap64

from moulin.catalog.objects.new_table import NewTable
from moulin.errors import InvalidInput, NotFound
from moulin.storage.store import Store
from moulin.table.adopt.columns import By
from moulin.table.adopt.files import found_files
from moulin.table.adopt.footers import FoundFile
from moulin.table.context import Context

Values = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Imported:
    """A table to make of files that are there, and how their columns are matched with its own.

    `deleted` are the positions of rows that no longer count, by the address of their file.
    """

    new: NewTable
    files: list[FoundFile]
    by: By = "own"
    deleted: Mapping[str, BitMap64] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of a foreign table: its address, its store, and where it lies there."""

    context: Context
    uri: str
    store: Store
    folder: str

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    def get(self, name: str) -> bytes:
        try:
            return self.store.get(self.path(name))
        except NotFound:
            raise NotFound(f"{name} of the table in {self.uri} is missing: it cannot be imported.") from None

    def document(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads(self.get(name))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise InvalidInput(f"{name} of the table in {self.uri} is not a JSON object.")
        return found

    def names(self, folder: str) -> list[str]:
        """The names of files right in a folder of the table."""
        start = len(self.path(folder)) + 1
        below = (info.path[start:] for info in self.store.list(self.path(folder)))
        return sorted(name for name in below if "/" not in name)

    def imported(
        self, new: NewTable, wanted: Mapping[str, Values], deleted: Mapping[str, BitMap64] | None = None
    ) -> Imported:
        """A table of files by their paths below the table's folder, each with values that are not in it, and with the
        positions of rows in it that are `deleted`."""
        files = found_files(self.context, self.uri, wanted)
        by_path = {self.path(name): positions for name, positions in (deleted or {}).items() if positions}
        gone = {file.address: by_path[file.path] for file in files if file.path in by_path}
        return Imported(new, files, deleted=gone)


Reader = Callable[[Place, Iterable[str] | None], Imported]

__all__ = ["Imported", "Place", "Reader", "Values"]
