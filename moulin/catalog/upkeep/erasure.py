"""The one way in which clean-up deletes bytes: names of known shapes, and nothing else (decisions 0191, 0092)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

from moulin.errors import FailedPrecondition
from moulin.storage import paths
from moulin.storage.file_kinds import FileKind, identify, table_of_folder
from moulin.storage.store import Store

# What clean-up deletes one by one; logs and lists of backfills go with the folder of a purged table alone.
SWEPT = frozenset(
    {
        FileKind.SEGMENT,
        FileKind.KEY_INDEX,
        FileKind.VECTORS,
        FileKind.COLUMN_FILE,
        FileKind.JOURNAL,
        FileKind.INDEX_FILE,
        FileKind.PROJECTION,
        FileKind.ENGINE_FILE,
        FileKind.TEMPORARY,
    }
)
_BLOCK = 500  # objects that are asked about at once
InUse = Callable[[Sequence[str]], Collection[str]]
"""The paths among some that rows name."""
_MANIFESTS = frozenset({FileKind.TABLE_MANIFEST, FileKind.LAKE_MANIFEST})
_ROWS = frozenset({FileKind.SEGMENT, FileKind.ENGINE_FILE, FileKind.LOG})


def erase(store: Store, objects: Iterable[str], *, rows: bool, in_use: InUse | None = None) -> None:
    """The only function that deletes files. It raises an error for paths of unknown form, which stay.

    Without `rows` it leaves every file that may hold rows of a table. With the folder of a purged table go all objects
    in it but those that are `in_use`: a table that took over what a branch made has files in the folders of others.
    """
    shaped = chain.from_iterable(_shaped(store, path, in_use) for path in objects)
    store.delete(path for path in shaped if rows or not holds_rows(path))


def holds_rows(path: str) -> bool:
    """Whether a file may contain rows: segments, files of engines, logs, and files of unknown form."""
    found = identify(path)
    return found is None or found.kind in _ROWS


# Files with values of rows in them, besides the rows: keys, index entries, bounds.
_VALUES = _ROWS | {
    FileKind.COLUMN_FILE,
    FileKind.KEY_INDEX,
    FileKind.INDEX_FILE,
    FileKind.PROJECTION,
    FileKind.TEMPORARY,
}


def holds_values(path: str) -> bool:
    """Whether a file that clean-up deletes one by one may hold values of rows: not vectors and journals."""
    found = identify(path)
    return found is not None and found.kind in _VALUES & SWEPT


def _shaped(store: Store, path: str, in_use: InUse | None) -> Iterator[str]:
    """The object of this path, or all objects of a table that was purged. No other folder is ever listed."""
    table_id, found = table_of_folder(path), identify(path)
    if table_id is not None:
        listed = (info.path for info in store.list(paths.table_prefix(table_id)))
        while block := list(islice(listed, _BLOCK)):
            kept = set() if in_use is None else in_use(block)
            yield from (name for name in block if name not in kept)
    elif found is not None and found.kind in SWEPT | _MANIFESTS:
        yield path
    else:
        raise FailedPrecondition(
            f"{path[:200]!r} is not the name of a file that clean-up may delete, so it was kept. Find out which "
            f"program created it."
        )
