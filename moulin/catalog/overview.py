"""The part of the catalog for those who look around: pages of tables and commits, what happened, figures of the lake.

Like the catalog itself it only opens transactions; other modules implement them.
"""

from __future__ import annotations

from uuid import UUID

from moulin.catalog.objects import browse
from moulin.catalog.objects.browse import Activity, LakeFigures
from moulin.catalog.sql.pool import Pool
from moulin.model.entities import CommitInfo, TableEntry


class OverviewCatalog:
    """Reached as `catalog.overview`. Safe to use from several threads."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def figures(self) -> LakeFigures:
        with self._pool.read() as connection:
            return browse.figures(connection)

    def tables(
        self, after: tuple[str, str] | None, limit: int, *, text: str = "", database_id: UUID | None = None
    ) -> list[TableEntry]:
        """Live tables of main by name, after a database and name; `text` is in the name, in any case."""
        with self._pool.read() as connection:
            return browse.tables_page(connection, after, limit, text=text, database_id=database_id)

    def tables_with_column(self, text: str, limit: int) -> list[tuple[TableEntry, str]]:
        """Live tables of main whose schema, a JSON document that is returned with each, has the text in it."""
        with self._pool.read() as connection:
            return browse.tables_with_column(connection, text, limit)

    def commits(self, table_id: UUID, before: tuple[int, int] | None, limit: int) -> list[CommitInfo]:
        """Kept commits of a table, newest first, those before a version and ordinal."""
        with self._pool.read() as connection:
            return browse.commits_page(connection, table_id, before, limit)

    def activity(self, since: int, before: int | None, limit: int, most: int = 50) -> list[Activity]:
        """Versions after `since` and before `before`, newest first, each with at most `most` of its changes."""
        with self._pool.read() as connection:
            return browse.activity(connection, since, before, limit, most)

    def versions_by_time(self, since_ns: int, step_ns: int) -> dict[int, int]:
        """How many versions were committed in each step of time, by its number."""
        with self._pool.read() as connection:
            return browse.versions_by_time(connection, since_ns, step_ns)
