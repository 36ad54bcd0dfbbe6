"""A catalog as a branch sees it: the same one, with the names of databases that the branch has.

On the branch `exp`, the name `shop` means the database `shop@exp`.
"""

# Decisions: docs/decisions/0411

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any, Final, cast
from uuid import UUID

from moulin.catalog.backend import CatalogBackend
from moulin.errors import NotFound, Unsupported
from moulin.model.entities import Database, DropPreview
from moulin.model.names import AT, on_branch

# The calls that name databases, and in which places.
_DATABASES: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("create_database", "database", "set_database_properties", "preview_drop_database"), (0,)),
    **dict.fromkeys(("drop_database", "resurrect_database", "create_table", "tables", "table", "entry"), (0,)),
    **dict.fromkeys(("table_or_view", "replace_table", "drop_table", "resurrect_table", "create_view"), (0,)),
    **dict.fromkeys(("set_view_properties", "set_view_members", "views", "view"), (0,)),
    **dict.fromkeys(("drop_view", "resurrect_view"), (0,)),
    "rename_database": (0, 1),
    "clone_table": (1,),
    "rename_table": (0, 2),
    "rename_view": (0, 3),
    **dict.fromkeys(("table_by_id", "table_entry", "state_until"), ()),
}


def branch_catalog(whole: CatalogBackend, name: str) -> CatalogBackend:
    """The catalog of a lake as one of its branches sees it; NotFound when there is no such branch."""
    return cast(CatalogBackend, _BranchCatalog(whole, whole.branch(name).name))


class _BranchCatalog:
    def __init__(self, whole: CatalogBackend, branch: str) -> None:
        self.whole, self.branch_name = whole, branch

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.whole, name)
        places = _DATABASES.get(name)
        return value if places is None else partial(self._call, value, places)

    def databases(self, *, include_dropped: bool = False) -> list[Database]:
        found = self.whole.databases(include_dropped=include_dropped, branch=self.branch_name)
        if not found:
            self.whole.branch(self.branch_name)  # says so when it is gone
        return [cast(Database, self._shown(one)) for one in found]

    def claimed_tables(self) -> list[UUID]:
        return self.whole.claimed_tables(branch=self.branch_name)

    @property
    def ingest(self) -> Any:
        return _NoTokens(self.whole)

    def close(self) -> None:
        """The opener of the lake closes its catalog."""

    def _call(self, method: Callable[..., Any], places: tuple[int, ...], *given: Any, **named: Any) -> Any:
        mapped = [self._stored(one) if place in places else one for place, one in enumerate(given)]
        if "database" in named:
            named["database"] = self._stored(named["database"])
        try:
            found = method(*mapped, **named)
        except NotFound:
            self.whole.branch(self.branch_name)  # the branch itself may be gone
            raise
        return [self._shown(one) for one in found] if isinstance(found, list) else self._shown(found)

    def _stored(self, database: str | UUID) -> str | UUID:
        if isinstance(database, UUID):
            return database
        stem, at, branch = database.rpartition(AT)
        if not at:
            return on_branch(database, self.branch_name)
        if branch != self.branch_name or AT in stem:
            raise NotFound(
                f"Database {database!r} is not on the branch {self.branch_name!r}: ask the lake for other branches."
            )
        return database

    def _shown(self, found: Any) -> Any:
        """An answer with the names that the branch knows."""
        ending = AT + self.branch_name
        if isinstance(found, Database):
            return replace(found, name=found.name.removesuffix(ending))
        if isinstance(found, DropPreview):
            return replace(found, database=self._shown(found.database))
        name = getattr(found, "database", None)
        if is_dataclass(found) and not isinstance(found, type) and isinstance(name, str):
            return replace(found, database=name.removesuffix(ending))
        return found


class _NoTokens:
    """Records that collectors send go to main: a branch has no tokens, and no streams."""

    def __init__(self, whole: CatalogBackend) -> None:
        self.snapshot = whole.ingest.snapshot

    def __getattr__(self, name: str) -> Any:
        raise Unsupported("Ingest tokens can only be used on main: collectors cannot send records to branches.")
