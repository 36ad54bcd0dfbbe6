"""A lake's storage together with its base paths: the one module that resolves addresses below `bases/`.

The catalog lists the base paths; options, which may contain secrets, come from the caller who opens the lake. A base
path is opened on first use.
"""

# Decisions: docs/decisions/0430

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final
from uuid import UUID

from moulin.config import Config
from moulin.errors import Closed, Corrupt, FailedPrecondition, InvalidInput, NotFound
from moulin.model.entities import BasePath
from moulin.storage import paths
from moulin.storage.cache import with_cache
from moulin.storage.interface import ObjectInfo, Store, checked_prefix
from moulin.storage.store import open_store
from moulin.storage.sts import Sts

if TYPE_CHECKING:
    import pyarrow as pa

Options = Mapping[str, Mapping[str, str]]
"""Storage options of base paths, by name."""

OPTIONS_VARIABLE: Final = "MOULIN_BASE_OPTIONS"
_PREFIX: Final = f"{paths.bases_prefix()}/"


class BasesStore(Store):
    """The storage of a lake: paths below `bases/` are objects of base paths, all others the lake's own.

    `follow` gives the catalog that knows the base paths. Pickled, the store keeps those that were known then.
    """

    def __init__(
        self, own: Store, config: Config, options: Options | None = None, known: Mapping[UUID, BasePath] | None = None
    ) -> None:
        super().__init__(own.uri)
        self.own, self._config = own, config
        given = options_of_environment() if options is None else options
        self._options = {name: dict(some) for name, some in given.items()}
        self._known: dict[UUID, BasePath] = dict(known or {})
        self._opened: dict[UUID, Store] = {}
        self._list: Callable[[], Iterable[BasePath]] | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[BasesStore], tuple[object, ...]]:
        self.known()
        return BasesStore, (self.own, self._config, self._options, dict(self._known))

    def follow(self, bases: Callable[[], Iterable[BasePath]]) -> BasesStore:
        """Ask `bases` for base paths that are not known yet."""
        self._list = bases
        return self

    def open_base(self, base: BasePath, *, create: bool = False) -> Store:
        """The store of a base path."""
        with self._lock:
            found = self._opened.get(base.id)
        if found is None:
            opened = open_store(base.uri, self._options.get(base.name), create=create)
            found = with_cache(opened, self._config)
            with self._lock:
                self._known[base.id] = base
                found = self._opened.setdefault(base.id, found)
        return found

    def address(self, uri: str | os.PathLike[str], name: str) -> str:
        """The address of a root that is to be a base path in one spelling; refused when it cannot be opened."""
        return open_store(os.fspath(uri), self._options.get(name), create=False).uri

    def known(self) -> None:
        """Learn the base paths of now, for a copy of this store that cannot ask the catalog. A closed one says none."""
        with suppress(Closed):
            for base in self._list() if self._list is not None else ():
                self._known.setdefault(base.id, base)

    def _of(self, path: str) -> tuple[Store, str]:
        """The store that has an object, and its path there."""
        if not path.startswith(_PREFIX):
            return self.own, path
        found = paths.parse_base_path(paths.checked(path))
        if found is None:
            raise InvalidInput(f"{path[:200]!r} is not the address of a file in a base path.")
        base_id, rest = found
        if base_id not in self._known:
            self.known()
        base = self._known.get(base_id)
        if base is None:
            raise Corrupt(f"{path} is below an unknown base path: run `moulin check`.")
        try:
            return self.open_base(base), rest
        except NotFound as error:
            raise Corrupt(
                f"The base path {base.name!r} does not exist, so {path} cannot be read: {error.message}"
            ) from error

    @property
    def is_local(self) -> bool:
        return self.own.is_local

    @property
    def service(self) -> tuple[str, str]:
        return self.own.service

    @property
    def sts(self) -> Sts | None:
        return self.own.sts

    def location(self, path: str) -> str:
        store, rest = self._of(path)
        return store.location(rest)

    def local_path(self, path: str) -> Path | None:
        store, rest = self._of(path)
        return store.local_path(rest)

    def get(self, path: str) -> bytes:
        store, rest = self._of(path)
        return store.get(rest)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        store, rest = self._of(path)
        return store.get_range(rest, start, length)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> tuple[bytes, ...]:
        store, rest = self._of(path)
        return store.get_ranges(rest, ranges)

    def head(self, path: str) -> ObjectInfo:
        store, rest = self._of(path)
        return replace(store.head(rest), path=path)

    def reader(self, path: str, size: int | None = None, etag: str = "") -> pa.NativeFile:
        store, rest = self._of(path)
        return store.reader(rest, size, etag if self._config.check_etags == "on" else "")

    def put(self, path: str, data: bytes) -> None:
        store, rest = self._writable(path)
        store.put(rest, data)

    def put_if_absent(self, path: str, data: bytes) -> None:
        store, rest = self._writable(path)
        store.put_if_absent(rest, data)

    def put_derived(self, path: str, data: bytes) -> None:
        store, rest = self._writable(path)
        store.put_derived(rest, data)

    def put_fresh(self, path: str, *parts: bytes) -> None:
        store, rest = self._writable(path)
        store.put_fresh(rest, *parts)

    def writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        store, rest = self._writable(path)
        return store.writer(rest)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        if not f"{prefix}/".startswith(_PREFIX):
            return self.own.list(prefix, after)
        store, rest = self._of(checked_prefix(prefix))
        base = prefix.removesuffix(rest)
        behind = after.removeprefix(base) if after.startswith(base) else ""
        return (replace(info, path=f"{base}{info.path}") for info in store.list(rest, behind))

    def delete(self, objects: Iterable[str]) -> None:
        """Removes objects. Rejects adopted files in base paths."""
        own: list[str] = []
        for path in objects:
            if path.startswith(_PREFIX):
                store, rest = self._writable(path)
                store.delete([rest])
            else:
                own.append(path)
        self.own.delete(own)

    def remove_empty_folders(self, prefix: str = "") -> None:
        if f"{prefix}/".startswith(_PREFIX):
            store, rest = self._writable(checked_prefix(prefix))
            store.remove_empty_folders(rest)
        else:
            self.own.remove_empty_folders(prefix)

    def _writable(self, path: str) -> tuple[Store, str]:
        if path.startswith(_PREFIX) and paths.is_adopted(path):
            raise FailedPrecondition(f"{path} is an adopted file: the lake never changes it.")
        return self._of(path)


def options_of_environment() -> dict[str, dict[str, str]]:
    """What MOULIN_BASE_OPTIONS says: a JSON object that has one of texts for each base path. It is never shown."""
    try:
        found = json.loads(os.environ.get(OPTIONS_VARIABLE) or "{}")
    except ValueError:
        found = None
    parts = list(found.values()) if isinstance(found, dict) else [None]
    if not all(isinstance(one, dict) and all(isinstance(value, str) for value in one.values()) for one in parts):
        raise InvalidInput(
            f'{OPTIONS_VARIABLE} takes a JSON object such as {{"archive": {{"region": "eu-west-1"}}}}: names of base '
            "paths, each with texts."
        )
    assert isinstance(found, dict)
    return found


def is_inside(inner: str, outer: str) -> bool:
    """Whether the root `inner` is the root `outer`, or lies in it."""
    return f"{inner}/".startswith(f"{outer}/")


__all__ = ["OPTIONS_VARIABLE", "BasesStore", "Options", "is_inside", "options_of_environment"]
