"""Finds the files to adopt, and their base path, creating one if there is none."""

# Decisions: docs/decisions/0430

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from urllib.parse import unquote, urlsplit
from uuid import UUID

from moulin.errors import AlreadyExists, InvalidInput, NotFound
from moulin.model.entities import BasePath
from moulin.storage import paths
from moulin.storage.bases import is_inside
from moulin.storage.store import ObjectInfo, Store, open_store
from moulin.table.adopt.footers import FoundFile
from moulin.table.adopt.partition import path_values
from moulin.table.context import Context

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_Values = tuple[tuple[str, str | None], ...]
_WILD = re.compile(r"[*?\[]")
_WILDS = re.compile(r"(\*|\?|\[!?[^\]]+\])")
_ENDINGS = (".parquet", ".parq")
_NOBODY = UUID(int=0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Root:
    """A folder to look in, and what is wanted of it: `pattern` for a glob, else `names` of files, else all Parquet."""

    uri: str
    pattern: str | None = None
    names: tuple[str, ...] | None = None


def find_files(context: Context, source: Source, *, columns: Collection[str], hive: bool) -> list[FoundFile]:
    """The files that a source means, in the order of their paths.

    Text is a folder, a file, or a pattern with `*`, `?`, `[...]` and `**` for any folders. A list names files and
    folders literally. With `hive`, folders such as day=2026-01-01 name values; those around the base path count if the
    table has a column of the name.
    """
    found: dict[str, FoundFile] = {}
    for root in _roots(context, source):
        base, store, folder = _base_of(context, root.uri)
        inner = _inner_bases(context, base)
        around = {name: value for name, value in path_values(f"{_root_path(base)}/x").items() if name in columns}
        inside, named = _Inside(store, base), dict[str, _Values]()
        for info in _listed(store, folder, root):
            inside.check(info.path)
            address = _address(base, inner, info.path)
            if paths.parse_moved(address) is not None:
                raise InvalidInput(f"{info.path} below {base.uri} is a segment of a lake: it cannot be adopted.")
            above = info.path.rpartition("/")[0]
            if (values := named.get(above)) is None:
                values = named[above] = tuple({**around, **path_values(info.path)}.items()) if hive else ()
            etag = "" if store.is_local else info.etag or ""  # of a folder it says no more than the time
            found[address] = FoundFile(address, info.path, info.size, _nanos(info.modified), etag, values)
    if not found:
        raise NotFound(f"{_shown(source)} has no Parquet files: give another folder, file or pattern.")
    return [found[address] for address in sorted(found)]


def folder_of(context: Context, text: str) -> tuple[str, Store, str]:
    """The address of a folder, the store of the base path that it lies below, and its path there."""
    local = _local(text)
    if local is not None and not os.path.isdir(local):
        raise NotFound(f"The folder {text} does not exist.")
    uri = text.rstrip("/") if local is None else _folder_uri(os.path.realpath(local))
    _, store, folder = _base_of(context, uri)
    return uri, store, folder


def found_files(context: Context, uri: str, wanted: Mapping[str, Mapping[str, str | None]]) -> list[FoundFile]:
    """Files by their paths below a folder, each with values of columns that it may lack."""
    base, store, folder = _base_of(context, uri)
    inner = _inner_bases(context, base)
    known = {info.path: info for info in store.list(folder)} if wanted else {}
    found, inside = [], _Inside(store, base)
    for name, values in wanted.items():
        path = paths.checked(f"{folder}/{name}" if folder else name)
        info = known.get(path)
        if info is None:
            raise NotFound(f"{name} is a file of the table in {uri}, but does not exist.")
        inside.check(path)
        etag = "" if store.is_local else info.etag or ""
        address, told = _address(base, inner, path), tuple(values.items())
        found.append(FoundFile(address, path, info.size, _nanos(info.modified), etag, told))
    return sorted(found, key=lambda file: file.address)


def _inner_bases(context: Context, base: BasePath) -> list[tuple[str, BasePath]]:
    """The base paths inside another one, by their folders there, the longest first: a file has one address."""
    root = _root_path(base)
    inner = [one for one in context.catalog.bases() if one.id != base.id and is_inside(one.uri, base.uri)]
    folders = [(_root_path(one)[len(root) :].strip("/"), one) for one in inner]
    return sorted(folders, key=lambda found: -len(found[0]))


def _address(base: BasePath, inner: Sequence[tuple[str, BasePath]], path: str) -> str:
    for folder, one in inner:
        if path.startswith(f"{folder}/"):
            return paths.base_path(one.id, path[len(folder) + 1 :])
    return paths.base_path(base.id, path)


def _root_path(base: BasePath) -> str:
    """The path in the address of a base path, as the names of folders are spelled."""
    path = urlsplit(base.uri).path
    return unquote(path) if base.uri.startswith("file:") else path


def _roots(context: Context, source: Source) -> list[_Root]:
    if isinstance(source, str):
        return [_pattern_root(context, source)] if _WILD.search(source) else [_literal(context, source)]
    if isinstance(source, os.PathLike):
        return [_literal(context, os.fspath(source))]
    names = [os.fspath(one) for one in source]
    if not names or not all(isinstance(one, str) for one in names):
        raise InvalidInput("Give a folder, a pattern, or a list of files and folders to adopt.")
    files: dict[str, list[str]] = {}
    folders: list[_Root] = []
    for one in names:
        root = _literal(context, one)
        if root.names is None:
            folders.append(root)
        else:
            files.setdefault(root.uri, []).extend(root.names)
    joined = _common(list(files)) if files else ""
    below = [f"{uri[len(joined) :].lstrip('/')}/{name}".lstrip("/") for uri, some in files.items() for name in some]
    return [*folders, *([_Root(joined, names=tuple(below))] if files else [])]


def _common(uris: list[str]) -> str:
    """The folder that all of these lie in."""
    parts = [uri.split("/") for uri in uris]
    shared = list(takewhile(lambda same: same is not None, map(_same, zip(*parts, strict=False))))
    if len(shared) < 3 or (len(shared) == 3 and not uris[0].startswith("file:")):  # scheme://bucket
        raise InvalidInput("The files are in several stores: adopt the files of each store separately.")
    return "/".join(part for part in shared if part is not None)


def _same(parts: tuple[str, ...]) -> str | None:
    return parts[0] if len(set(parts)) == 1 else None


def _literal(context: Context, text: str) -> _Root:
    """A folder, or a file in its folder."""
    local = _local(text)
    if local is not None:
        real = os.path.realpath(local)
        if os.path.isfile(local):
            folder = os.path.realpath(os.path.dirname(local))
            return _Root(_folder_uri(folder), names=(os.path.basename(local),))
        if not os.path.isdir(real):
            raise NotFound(f"{text} does not exist: give a folder, a file or a pattern.")
        return _Root(_folder_uri(real))
    uri = text.rstrip("/")
    folder, _, name = uri.rpartition("/")
    if name.endswith(_ENDINGS) and not _is_folder(context, uri):
        return _Root(folder, names=(name,))
    return _Root(uri)


def _is_folder(context: Context, uri: str) -> bool:
    _, store, folder = _base_of(context, uri, register=False)
    return any(True for _ in store.list(folder))


def _pattern_root(context: Context, text: str) -> _Root:
    local = _local(text)
    whole = text if local is None else os.path.abspath(local)
    parts = whole.split("/")
    at = next(index for index, part in enumerate(parts) if _WILD.search(part))
    start, pattern = "/".join(parts[:at]), "/".join(parts[at:])
    if local is None:
        return _Root(start, pattern)
    if not os.path.isdir(start or "/"):
        raise NotFound(f"The folder {start} does not exist.")
    return _Root(_folder_uri(os.path.realpath(start or "/")), pattern)


def _local(text: str) -> str | None:
    """The path of a local file or folder; None for an address in an object store."""
    if text.startswith("file:"):
        return unquote(urlsplit(text).path)
    return None if "://" in text else os.path.expanduser(text)


def _folder_uri(folder: str) -> str:
    return open_store(folder, create=False).uri


def _base_of(context: Context, uri: str, *, register: bool = True) -> tuple[BasePath, Store, str]:
    """The base path that a root lies below, its store, and the folder there. Without one, the root becomes one."""
    known = [base for base in context.catalog.bases() if is_inside(uri, base.uri)]
    if not known and register:
        known = [_register(context, uri)]
    if not known:
        store = open_store(uri, create=False)
        return BasePath(_NOBODY, "", uri, 0), store, ""
    base = max(known, key=lambda one: len(one.uri))
    store = context.bases.open_base(base)
    rest = uri[len(base.uri) :].strip("/")
    if store.is_local:
        rest = os.path.relpath(_root(open_store(uri, create=False)), _root(store))
        rest = "" if rest == "." else rest
    return base, store, rest


def _register(context: Context, uri: str) -> BasePath:
    """The root as a base path of its own, or the first folder above it whose name is not that of a value."""
    while "=" in unquote(uri.rsplit("/", 1)[-1]) and uri.count("/") > 3:  # scheme://bucket/folder
        uri = uri.rsplit("/", 1)[0]
    last = re.sub(r"[^A-Za-z0-9_-]+", "-", uri.rsplit("/", 1)[-1]).strip("-")[:40] or "files"
    name = f"{last}-{hashlib.sha256(uri.encode()).hexdigest()[:8]}"
    try:
        return context.catalog.add_base(name, context.bases.address(uri, name))
    except AlreadyExists:
        return next(base for base in context.catalog.bases() if is_inside(uri, base.uri))


def _listed(store: Store, folder: str, root: _Root) -> Iterator[ObjectInfo]:
    if root.names is not None:
        for name in root.names:
            path = paths.checked(f"{folder}/{name}" if folder else name)
            yield store.head(path)
        return
    matches = _is_parquet if root.pattern is None else _glob(root.pattern)
    for info in store.list(folder):
        below = info.path[len(folder) + 1 :] if folder else info.path
        if matches(below) and not paths.is_temporary(info.path):
            yield info


def _is_parquet(path: str) -> bool:
    return not _is_hidden(path) and path.endswith(_ENDINGS)


def _is_hidden(path: str) -> bool:
    """As Spark has it: a part begins with '.' or '_', but for '_name=value'."""
    rooted = f"/{path}"
    if "/." not in rooted and "/_" not in rooted:
        return False
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.split("/"))


def _glob(pattern: str) -> Callable[[str], bool]:
    """Whether a path matches a pattern: '**' stands for any number of folders, '*' for a part of one name.

    Hidden files match where the pattern names them.
    """
    parts = pattern.split("/")
    pieces = []
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            pieces.append("(?:[^/]+/)*" + ("[^/]+" if last else ""))
        else:
            pieces.append(_name_pattern(part) + ("" if last else "/"))
    whole, shows_hidden = re.compile("".join(pieces), re.DOTALL), _is_hidden(pattern)
    return lambda path: whole.fullmatch(path) is not None and (shows_hidden or not _is_hidden(path))


def _name_pattern(part: str) -> str:
    """A regular expression for one name, from a pattern of it."""
    found = []
    for piece in _WILDS.split(part):
        if piece in ("*", "?"):
            found.append("[^/]*" if piece == "*" else "[^/]")
        elif len(piece) > 2 and piece.startswith("[") and piece.endswith("]"):  # something in brackets
            inside = piece[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            found.append(f"[^/{inside[1:]}]" if inside.startswith("!") else f"[{inside}]")
        else:
            found.append(re.escape(piece))
    return "".join(found)


class _Inside:
    """Refuses files that a symbolic link takes out of their base path; asks about each folder once."""

    def __init__(self, store: Store, base: BasePath) -> None:
        self._base, self._root = base, _root(store) if store.is_local else None
        self._real = None if self._root is None else os.path.realpath(self._root)
        self._folders: dict[str, bool] = {}

    def check(self, path: str) -> None:
        if self._root is None:
            return
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            self._folders[folder] = self._is_inside(os.path.join(self._root, folder))
        file = f"{self._root}/{path}"
        if not self._folders[folder] or (os.path.islink(file) and not self._is_inside(file)):
            raise InvalidInput(
                f"{path} is a symbolic link out of base path {self._base.name!r}, {self._base.uri}: adopt the file "
                f"itself."
            )

    def _is_inside(self, local: str) -> bool:
        return f"{os.path.realpath(local)}{os.sep}".startswith(f"{self._real}{os.sep}")


def _root(store: Store) -> str:
    """The folder of a local store."""
    inside = store.local_path("x")
    assert inside is not None
    return str(inside.parent)


def _nanos(moment: datetime) -> int:
    passed = moment - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 10**9 + passed.microseconds * 1000


def _shown(source: Source) -> str:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    names: Iterable[str] = (os.fspath(one) for one in source)
    return next(iter(names), "The list")


__all__ = ["Source", "find_files", "folder_of", "found_files"]
