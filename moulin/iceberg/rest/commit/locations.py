"""The allowed locations of engines' files: formats of addresses, base paths, and the location of a table."""

# Decisions: docs/decisions/0631

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from moulin.errors import InvalidInput, MoulinError
from moulin.iceberg.format.locations import location
from moulin.storage import paths
from moulin.table.context import Context


def spellings(root: str) -> list[str]:
    """Normalizes locations of engines: those on Hadoop write file:/, some omit the scheme."""
    if not root.startswith("file://"):
        return [root]
    plain = root.removeprefix("file://")
    return [root, plain, f"file:{plain}"]


def asked_location(context: Context, table_id: UUID, where: str | None) -> str | None:
    """A location that an engine asks for, as it spelled it; None for the table's own folder.

    Raises InvalidInput for one that does not lie below a base path.
    """
    if where is None:
        return None
    where = where.rstrip("/")
    own = location(context.store, paths.table_prefix(table_id))
    if where in spellings(own):
        return None
    if "://" not in where and not where.startswith(("/", "file:/")):
        raise InvalidInput(f"Location {where!r} is relative: give the whole address, or leave it out.")
    path = below(base_roots(context), where)
    if path is None:
        raise InvalidInput(
            f"Location {where!r} does not lie below a base path of the lake: register one with `moulin base add`, or "
            "leave the location out."
        )
    if paths.is_in_moved_folder(path):
        raise InvalidInput(f"Location {where!r} lies in a folder in which a lake keeps segments: choose another.")
    return where


def make_location(context: Context, where: str | None) -> None:
    """Make the folders of a location that lies on this machine: some engines write into folders and do not make them.

    REQUIRES: it is None, or what `asked_location` returned.
    """
    path = None if where is None else below(base_roots(context), where)
    if path is None:
        return
    try:
        folders = [context.store.local_path(f"{path}/{name}") for name in ("data", "metadata")]
    except MoulinError:
        return  # the base path does not exist: it is not created, and writes there raise an error
    for folder in folders:
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InvalidInput(f"Location {where!r} cannot be made: {error.strerror}.") from None


def base_roots(context: Context) -> list[tuple[str, UUID]]:
    """The addresses of base paths in all spellings; of two around each other the inner one comes first."""
    found = [(root, one.id) for one in context.catalog.bases() for root in spellings(f"{one.uri}/")]
    return sorted(found, key=lambda one: -len(one[0]))


def below(roots: Sequence[tuple[str, UUID]], where: str) -> str | None:
    """The path behind a location below one of these roots; None when it lies below none."""
    for root, base_id in roots:
        if where.startswith(root):
            return paths.base_path(base_id, where.removeprefix(root))
    return None


__all__ = ["asked_location", "base_roots", "below", "make_location", "spellings"]
