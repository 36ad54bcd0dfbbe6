"""A folder as a store.

Does not use obstore: its local store does not sync writes, hangs in a forked child, and is many times slower than the
system calls.
"""

# Decisions: docs/decisions/0030, docs/decisions/0497, docs/decisions/0692

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, cast

from moulin.errors import AlreadyExists, FailedPrecondition, MoulinError, NotFound, Unavailable
from moulin.storage import modes, paths
from moulin.storage.interface import ObjectInfo, Store, checked_prefix, checked_ranges, checked_size, complete

if TYPE_CHECKING:
    import pyarrow as pa

_TRANSIENT: Final = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.ETIMEDOUT,
        errno.ESTALE,
    }
)
_FOLDER_ATTEMPTS: Final = 50  # against a sweep of empty folders at the same time
_BEFORE: Final = "before"
_AFTER: Final = "after"
_NEVER: Final = "never"
_PIECE_BYTES: Final = 1 << 20  # of one write
_NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV})


def open_folder(folder: str, *, create: bool) -> LocalStore:
    """The store in `folder`, which is made, with its parents, when it is missing and `create` says so."""
    root = os.path.realpath(os.path.expanduser(folder))  # one address, however the way to it is spelled
    with _writing(root):
        if create and not os.path.exists(root):
            for changed in _make_folder(root, modes.make_private):
                _sync_folder(changed)
    if not os.path.exists(root):
        raise NotFound(f"The folder {root} does not exist.")
    if not os.path.isdir(root):
        raise FailedPrecondition(f"{root} is a file, not a folder: choose another path for the lake.")
    return LocalStore(root)


class LocalStore(Store):
    """A folder. `root` is absolute."""

    def __init__(self, root: str) -> None:
        super().__init__(Path(root).as_uri())
        self._root = root

    def __reduce__(self) -> tuple[type[LocalStore], tuple[str]]:
        return LocalStore, (self._root,)

    @property
    def is_local(self) -> bool:
        return True

    def local_path(self, path: str) -> Path:
        return Path(self._file(path))

    def get(self, path: str) -> bytes:
        file = self._file(path)
        with _reading(file), open(file, "rb") as source:
            return source.read()

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self.get_ranges(path, [(start, length)])[0]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> tuple[bytes, ...]:
        file = self._file(path)
        chunks = []
        with _reading(file), open(file, "rb") as source:
            size = os.fstat(source.fileno()).st_size
            for start, length in checked_ranges(ranges):
                first = min(start, size)  # damaged numbers must neither seek past a disk nor claim that much memory
                source.seek(first)
                chunks.append(complete(file, start, length, source.read(min(length, size - first))))
        return tuple(chunks)

    def head(self, path: str) -> ObjectInfo:
        file = self._file(path)
        with _reading(file):
            status = os.stat(file)
            if not stat.S_ISREG(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return _info(path, status)

    def put(self, path: str, data: bytes) -> None:
        with self._staged(path, os.replace) as file:
            file.write(data)

    def put_if_absent(self, path: str, data: bytes) -> None:
        with self._staged(path, _link) as file:
            file.write(data)

    def put_derived(self, path: str, data: bytes) -> None:
        with self._staged(path, _link, sync=_NEVER) as file:
            file.write(data)

    def put_fresh(self, path: str, *parts: bytes) -> None:
        with self._staged(path, _link, sync=_AFTER) as file:
            file.writelines(parts)

    def writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self._staged(path, os.replace)

    def reader(self, path: str, size: int | None = None, etag: str = "") -> pa.NativeFile:
        import pyarrow as pa

        file = self._file(path)
        with _reading(file):
            status = os.stat(file)
            if not stat.S_ISREG(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            checked_size(file, status.st_size, size)
            return pa.OSFile(file)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        prefix = checked_prefix(prefix)
        with _reading(self._root):
            os.stat(self._root)  # a lake that is gone, or not mounted, is not an empty one
        return self._walk(prefix, after)

    def delete(self, objects: Iterable[str]) -> None:
        for path in objects:
            file = self._file(path)
            with _writing(file), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                os.unlink(file)

    def clock(self) -> datetime:
        """The file system's time, which a folder on another machine has from there."""
        with _writing(self._root):
            file, descriptor, _ = _create_temporary(self._root, f"{paths.tables_prefix()}/clock")
            try:
                os.write(descriptor, b"clock")
                return datetime.fromtimestamp(os.fstat(descriptor).st_mtime, UTC)
            finally:
                os.close(descriptor)
                os.unlink(file)

    def remove_empty_folders(self, prefix: str = "") -> None:
        prefix = checked_prefix(prefix)
        for folder, _, _ in os.walk(self._file(prefix) if prefix else self._root, topdown=False):
            if folder != self._root:
                with suppress(OSError):  # not empty: the usual case
                    os.rmdir(folder)

    def _file(self, path: str) -> str:
        return f"{self._root}/{paths.checked(path)}"

    def _walk(self, prefix: str, after: str) -> Iterator[ObjectInfo]:
        folders = [prefix]
        while folders:
            folder = folders.pop()
            file = f"{self._root}/{folder}"  # not `_file`: people may put what they like beside our files
            gone = suppress(FileNotFoundError, NotADirectoryError)
            with _reading(file), gone, os.scandir(file) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                        continue
                    if path <= after:
                        continue
                    try:
                        status = entry.stat()
                    except FileNotFoundError:  # removed since it was listed
                        continue
                    if stat.S_ISREG(status.st_mode):
                        yield _info(path, status)

    @contextmanager
    def _staged(
        self, path: str, publish: Callable[[str, str], None], *, sync: Literal["before", "after", "never"] = _BEFORE
    ) -> Iterator[BinaryIO]:
        """A temporary file beside `path`, given its name by `publish(temporary, target)`; synced before that, after
        it, when one sync of a journalling file system does for all, or never.
        """
        target = self._file(path)
        with _writing(target):
            temporary, descriptor, changed = _create_temporary(self._root, path)
        try:
            with io.BufferedWriter(_TemporaryFile(os.dup(descriptor), target), 1 << 16) as file:
                yield cast(BinaryIO, file)
            with _writing(target):
                if sync == _BEFORE:
                    _sync_with_folders(descriptor, changed)
                publish(temporary, target)
                if sync == _AFTER:
                    _sync_with_folders(descriptor, changed)
                if sync != _NEVER:
                    _sync_folder(os.path.dirname(target))
        finally:
            os.close(descriptor)
            with suppress(OSError):  # a rename has taken it away already
                os.unlink(temporary)


class _TemporaryFile(io.FileIO):
    """The file under a local writer; a full disk becomes Unavailable at the write that met it.

    The page cache takes memory for a write in blocks of up to its size, and large blocks may have to be fetched by a
    virtual machine first, which takes ten times as long as copying: so little is written at a time.
    """

    def __init__(self, descriptor: int, target: str) -> None:
        super().__init__(descriptor, "wb")
        self._target = target

    def write(self, data: Any, /) -> int:
        with _writing(self._target):
            return super().write(memoryview(data)[:_PIECE_BYTES])  # whoever buffers it comes again with the rest


def _create_temporary(root: str, path: str) -> tuple[str, int, list[str]]:
    """A new file in the folder of `path`: its name, its descriptor, and the folders that making its own changed."""
    file = f"{root}/{paths.temporary(path, secrets.token_hex(8))}"
    changed: list[str] = []
    for attempt in range(1, _FOLDER_ATTEMPTS + 1):
        try:
            return file, modes.open_new(file, os.O_WRONLY | os.O_EXCL), changed
        except FileNotFoundError:  # the folder is new, or another process just removed it as empty
            if attempt == _FOLDER_ATTEMPTS or not os.path.isdir(root):
                raise
            with suppress(FileNotFoundError):
                changed += _make_folder(os.path.dirname(file))
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def _reading(file: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise NotFound(f"File {file} does not exist.") from error
    except OSError as error:
        raise _failure(error, f"{file} cannot be read", "check its permissions") from error


@contextmanager
def _writing(file: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _failure(error, f"{file} cannot be written", "check that its folder exists and is writable") from error


def _failure(error: OSError, what: str, remedy: str) -> MoulinError:
    if error.errno in _TRANSIENT:
        return Unavailable(f"{what} ({error.strerror}): free space or repair the disk, then retry.")
    return FailedPrecondition(f"{what} ({error.strerror}): {remedy}.")


def _link(temporary: str, target: str) -> None:
    """Gives `temporary` its name as well, unless that is taken: a rename would replace, a link never does."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        if os.path.samefile(temporary, target):  # a server of files lost its answer, and was asked again
            return
        _sync_folder(os.path.dirname(target))  # the winner may not have got that far, and the loser builds on its file
        raise AlreadyExists(f"File {target} already exists.") from None
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            raise FailedPrecondition(
                f"The file system of {target} has no hard links, which put-if-absent needs: choose another folder."
            ) from error
        raise


def _make_folder(folder: str, make: Callable[[str], None] = modes.make_folder) -> list[str]:
    """Makes `folder` and its missing parents, and returns which folders got a new entry: sync those.

    The root of a lake is private; below it each folder has the mode of its parent, and above it the usual one.
    """
    parent = os.path.dirname(folder)
    changed = [] if os.path.isdir(parent) else _make_folder(parent, make if make is modes.make_folder else os.mkdir)
    with suppress(FileExistsError):
        make(folder)
    return [*changed, parent]


def _sync_with_folders(descriptor: int, folders: Iterable[str]) -> None:
    """Sync a file and the folders that its own folder was made in; the file first, as its sync often does for both."""
    os.fsync(descriptor)
    for folder in dict.fromkeys(folders):
        _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that keeps no folders to sync
            raise
    finally:
        os.close(descriptor)


def _info(path: str, status: os.stat_result) -> ObjectInfo:
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    return ObjectInfo(path, status.st_size, modified, f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}")
