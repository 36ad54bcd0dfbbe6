"""File permissions of a lake in a folder: owner only, unless the folder's mode is wider.

A new lake folder has mode 700. New files and folders take the mode of their folder, whatever the umask, so that `chmod
-R g+rwX` shares a lake with a group. Files that are written in place (the catalog, logs, notes of running processes)
are writable by everyone who may write to their folder.
"""

from __future__ import annotations

import os
import stat

OWNER_ONLY = 0o700
_FOLDER_BITS = 0o777 | stat.S_ISGID
_OTHERS = (0o060, 0o006)


def make_private(folder: str) -> None:
    """A new folder for its owner alone; FileExistsError when it is there."""
    os.mkdir(folder, OWNER_ONLY)
    os.chmod(folder, OWNER_ONLY)


def make_folder(folder: str | os.PathLike[str]) -> None:
    """A folder below another, with the mode of that one; nothing happens when it is there.

    FileExistsError when there is something else of that name.
    """
    mode = stat.S_IMODE(_folder_mode(folder)) & _FOLDER_BITS
    try:
        os.mkdir(folder, mode)
    except FileExistsError:
        if os.path.isdir(folder):
            return
        raise
    if stat.S_IMODE(os.stat(folder).st_mode) != mode:
        os.chmod(folder, mode)


def open_new(file: str | os.PathLike[str], flags: int) -> int:
    """A descriptor of a file that is made if it is missing, readable for those who may use its folder."""
    return _open(file, flags, _folder_mode(file) & 0o666 | 0o600)


def open_private(file: str | os.PathLike[str], flags: int) -> int:
    """A descriptor of a file that is made if it is missing, for those who may write to its folder."""
    mode = _folder_mode(file)
    return _open(file, flags, 0o600 | sum(bits for bits in _OTHERS if mode & bits & 0o022))


def _folder_mode(file: str | os.PathLike[str]) -> int:
    return os.stat(os.path.dirname(file) or ".").st_mode


def _open(file: str | os.PathLike[str], flags: int, mode: int) -> int:
    flags |= os.O_CREAT | os.O_CLOEXEC
    try:
        descriptor = os.open(file, flags | os.O_EXCL, mode)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(file, flags, mode)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
        os.fchmod(descriptor, mode)
    return descriptor
