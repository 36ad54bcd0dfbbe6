"""LakeBranches: the methods of `Lake` that create, open, compare, publish and drop branches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Self

from moulin.catalog.backend import CatalogBackend
from moulin.errors import FailedPrecondition, MoulinError, NotFound
from moulin.lake.queries import LakeQueries
from moulin.model.entities import Branch
from moulin.model.names import AT
from moulin.storage.address import with_branch

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from moulin.table.branch_diff import BranchDiff
    from moulin.table.publishing import Publication
    from moulin.table.trial import Expectations, Trial


class LakeBranches(LakeQueries):
    """Branches of the lake. A branch is itself a `Lake`."""

    def branch(
        self,
        name: str,
        *,
        at: int | str | datetime | None = None,
        expires: str | float | timedelta | None = None,
        tables: Sequence[str] | None = None,
    ) -> Self:
        """Create a branch of all tables, or of some, as of now or `at` a version.

        No rows are copied. Writes to the branch are visible only there, until `publish` applies them to main.
        `expires`, in seconds or as text such as "7d", is the time until clean-up drops it.

        >>> test = lake.branch("test", expires="7d")
        >>> test.table("shop.orders").append([{"id": 2, "customer": "bob", "amount": 4.0}]).rows_added
        1
        >>> lake.table("shop.orders").count()
        1
        >>> lake.drop_branch("test").name
        'test'
        """
        from moulin.table.branching import seconds_of, version_of

        catalog = self._main_catalog()
        only = None if tables is None else [self._resolve(table) for table in tables]
        if at is None and self.on_branch is None:
            self.flush()  # the branch includes earlier puts
        version = None if at is None else version_of(catalog, at)
        catalog.create_branch(name, version=version, expires_in=seconds_of(expires), only=only)
        return self.open_branch(name)

    def open_branch(self, name: str) -> Self:
        """Open an existing branch as a lake. It is closed with this lake.

        >>> _ = lake.branch("test")
        >>> lake.open_branch("test").table("shop.orders").count()
        1
        """
        from moulin.catalog.on_branch import branch_catalog

        try:
            catalog = branch_catalog(self._main_catalog(), name)
        except NotFound:
            self._forget_branch(name)
            raise
        with self._lock:
            found = self._branches.get(name)
            if found is None or found._closed:
                makers = self._make_spark, self._make_exporter, self._make_duck
                found = self._branches[name] = type(self)(catalog, self.store, with_branch(self.uri, name), *makers)
                found.on_branch, found._lines = name, self._lines
            return found

    def _forget_branch(self, name: str) -> None:
        """Close a branch that another process dropped. Unflushed puts stay in its logs."""
        with self._lock:
            gone = self._branches.pop(name, None)
        if gone is not None:
            with suppress(MoulinError):
                gone.close()

    def branch_alone(self, name: str) -> Self:
        """A branch for `moulin.connect`: closing it closes this lake.

        If it does not exist, this lake is closed at once.
        """
        try:
            found = self.open_branch(name)
        except BaseException:
            self.close()
            raise
        found._opened_by = self
        return found

    def branches(self, *, include_dropped: bool = False) -> list[Branch]:
        """List the branches of the lake, optionally with dropped ones.

        >>> _ = lake.branch("test")
        >>> [branch.name for branch in lake.branches()]
        ['test']
        """
        return self._open_catalog().branches(include_dropped=include_dropped)

    def diff(self) -> BranchDiff:
        """Compare the branch with its fork version: tables created, dropped, renamed, or with changed rows or columns.

        Tables that were never opened on the branch are not compared. Rows are counted and read on demand.

        >>> test = lake.branch("test")
        >>> _ = test.table("shop.orders").append([{"id": 1, "customer": "ann", "amount": 9.5}])
        >>> [(table.name, table.kind, table.inserted) for table in test.diff()]
        [('shop.orders', 'changed', 1)]
        >>> _ = lake.drop_branch("test")
        """
        from moulin.table.branch_diff import diff

        if self.on_branch is None:
            raise FailedPrecondition("Only a branch has a diff: use lake.open_branch(name).diff().")
        self.flush()
        return diff(self.context, self.on_branch)

    def publish(self, name: str, *, dry_run: bool = False) -> Publication:
        """Apply all changes of a branch to main in one version, or none. Then the branch is dropped.

        That includes rows, columns, properties, new and dropped tables, names and views. Changes of different rows
        never conflict. A row, key, column or name that both sides changed raises Conflict, which names it and both
        versions, and nothing is changed. With `dry_run`, the result or error is the same, but nothing is changed.

        >>> test = lake.branch("test")
        >>> _ = test.table("shop.orders").append([{"id": 7, "customer": "eve", "amount": 1.5}])
        >>> done = lake.publish("test")
        >>> [(table.name, table.inserted) for table in done.tables]
        [('shop.orders', 1)]
        """
        from moulin.table.publishing import publish

        self._open_catalog()
        if self.on_branch is not None:
            raise FailedPrecondition("Publish a branch from the main lake: lake.publish(name).")
        branch = self.open_branch(name)
        done = publish(self.context, branch.context, name, dry_run=dry_run)
        if not dry_run:
            self._branches.pop(name, None)
            branch.close()
        return done

    def trial(
        self,
        name: str,
        *,
        at: int | str | datetime | None = None,
        expires: str | float | timedelta | None = "1d",
        tables: Sequence[str] | None = None,
    ) -> Trial:
        """Create a branch that is published at the end of its `with` block if every expectation holds.

        Otherwise the branch is dropped, and FailedPrecondition names the expectations that failed. An exception in the
        block, or a Conflict with main, drops it too. If the process crashes, the branch is dropped after `expires`.

        >>> with lake.trial("load") as test:
        ...     _ = test.table("shop.orders").append([{"id": 8, "customer": "bob", "amount": 2.0}])
        ...     test.expect("select count(*) > 0 from shop.orders")
        """
        from moulin.table.trial import Trial

        def begin(expected: Expectations) -> LakeBranches:
            branch = self.branch(name, at=at, expires=expires, tables=tables)
            branch._expected = expected
            return branch

        return Trial(name, begin, lambda: self.publish(name), lambda: self.drop_branch(name))

    def expect(self, condition: object, message: str | None = None) -> None:
        """Publish this trial only if a condition holds at the end of its `with` block.

        `condition` is a query whose values must all be true, a function that takes the branch, or a bool.
        A query runs in DuckDB if that is installed, else in Spark. `message` describes the condition in the error.

        >>> with lake.trial("load") as test:
        ...     test.expect("select min(amount) > 0 from shop.orders", "amounts are positive")
        """
        if self._expected is None:
            raise FailedPrecondition("Only a trial has expectations: use with lake.trial(name) as branch.")
        self._expected.add(condition, message, self, self._holds)

    def _holds(self, text: str) -> bool:
        """Whether all values of a query are true."""
        from moulin.table.trial import holds

        if self._make_duck is not None and find_spec("duckdb") is not None:
            return holds(self.duckdb().execute(text).fetchall())
        return holds(self.sql(text).collect())

    def drop_branch(self, name: str) -> Branch:
        """Drop a branch with all its changes. It can be resurrected until its grace period ends.

        >>> _ = lake.branch("test")
        >>> lake.drop_branch("test").name
        'test'
        """
        catalog = self._main_catalog()
        if (opened := self._branches.pop(name, None)) is not None:
            opened.close()  # first, so that a resurrected branch includes all puts
        return catalog.drop_branch(name)

    def resurrect_branch(self, name: str) -> Self:
        """Restore a dropped branch within its grace period, and return it as a lake.

        >>> _ = lake.branch("test")
        >>> _ = lake.drop_branch("test")
        >>> lake.resurrect_branch("test").table("shop.orders").count()
        1
        """
        self._main_catalog().resurrect_branch(name)
        return self.open_branch(name)

    def _main_catalog(self) -> CatalogBackend:
        """The catalog, for operations that are only possible on main."""
        if self.on_branch is not None:
            raise FailedPrecondition(
                f"This lake is the branch {self.on_branch!r}: create, open and drop branches on the main lake."
            )
        return self._open_catalog()

    def _home(self, database: str) -> Self:
        """The lake of a database in this process: this one, or the branch in its name."""
        _, at, branch = database.rpartition(AT)
        return self.open_branch(branch) if at and self.on_branch is None else self


__all__ = ["LakeBranches"]
