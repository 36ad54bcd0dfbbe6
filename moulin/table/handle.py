"""TableHandle: the table and version that an object shows, and whether it can be written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import pyarrow as pa

from moulin.errors import Closed, FailedPrecondition, InvalidInput
from moulin.model.entities import Region, TableState
from moulin.model.operations import Operation
from moulin.model.schema.arrow import shown_schema
from moulin.model.tags import shown
from moulin.table.commit.change import SettingChange, after_commit
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.reader import FixedReader
from moulin.table.keyed.tables import keyed_table, open_keyed
from moulin.table.keyed.version import KeyedVersion
from moulin.table.write.writes import Outcome


class TableHandle:
    """The base class of all parts of `Table`. Stores only the table's id.

    A `read_only` table shows the version at which it was opened until `refresh`; `follow` makes the catalog look for
    newer versions, if it does not see them by itself.
    """

    def __init__(
        self, context: Context, table_id: UUID, *, read_only: bool = False, follow: Callable[[], int] | None = None
    ) -> None:
        self._context = context
        self.id = table_id
        self._read_only = read_only
        self._closed = False
        self._follow = follow
        self._shown: int | None = None
        self._fixed: FixedReader | None = None
        self._fixed_at: tuple[TableState, Sequence[Region]] | None = None
        if read_only:
            self._fix()

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    @property
    def name(self) -> str:
        """The name, database.table.

        >>> lake.table("shop.orders").name
        'shop.orders'
        """
        return self._state().full_name

    @property
    def version(self) -> int:
        """The last version that changed this table.

        >>> orders = lake.table("shop.orders")
        >>> orders.version == orders.history()[0].version
        True
        """
        return self._state().head_version

    @property
    def schema(self) -> pa.Schema:
        """The columns as a pyarrow.Schema.

        >>> lake.table("shop.orders").schema.field("amount").type
        DataType(double)
        """
        return shown_schema(self._state().schema)

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties by name.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.set_properties({"owner": "ann"})
        >>> orders.properties["owner"]
        'ann'
        """
        return shown(self._state().properties)

    def state(self, version: int | None = None) -> TableState:
        """Everything that the catalog knows about the table at `version` or now, except its segments.

        >>> lake.table("shop.orders").state().full_name
        'shop.orders'
        """
        return self._state(version)

    def refresh(self) -> int:
        """Move to the newest version, and return it. Only tables opened read-only need this.

        Running reads keep the version at which they started.

        >>> shown = lake.table("shop.orders", read_only=True)
        >>> _ = lake.table("shop.orders").delete_where("id = 1")
        >>> shown.count()
        1
        >>> _ = shown.refresh()
        >>> shown.count()
        0
        """
        self._require_open()
        if self._follow is not None:
            self._follow()
        return self._fix() if self._read_only else self._context.catalog.table_by_id(self.id).version

    def settle(self) -> None:
        """Commit rows in logs of dead writers, so that the newest version includes them. Does nothing on a read-only
        table.

        Raises Unavailable while another process holds such a log without flushing it.

        >>> lake.table("shop.orders").settle()
        """
        if not self._read_only and (keyed := self._keyed()) is not None:
            keyed.committed()

    def _fix(self) -> int:
        """Show the newest version from now on; for a keyed table, including logs of dead writers."""
        catalog = self._context.catalog
        state, fixed = catalog.table_by_id(self.id), None
        if state.schema.identifier_field_ids:
            regions = catalog.regions(self.id)  # before the version to which they are added
            state = catalog.table_by_id(self.id)
            fixed = (state, regions)
        self._fixed_at, self._fixed, self._shown = fixed, None, state.version
        return state.version

    def _may_have_left(self) -> bool:
        """Whether logs may contain rows that the shown version lacks."""
        if self._fixed_at is None:
            return False
        return not self._context.catalog.knows_claims or any(region.owner for region in self._fixed_at[1])

    def _fixed_reader(self) -> FixedReader:
        """The shown version of a keyed table."""
        if self._fixed is None:
            if self._fixed_at is None:
                raise FailedPrecondition(f"Table {self.name} has no primary key: use scan.")
            state, regions = self._fixed_at
            segments = self._context.catalog.segments(self.id, state.version, with_columns=False)
            self._fixed = FixedReader(self._context, KeyedVersion(state, tuple(segments), 0.0), regions)
        return self._fixed

    def _state(self, version: int | None = None) -> TableState:
        self._require_open()
        return self._context.catalog.table_by_id(self.id, self._shown if version is None else whole_number(version))

    def _writable(self) -> TableState:
        state = self._state()
        if self._closed:
            raise Closed("The table was closed; open it again with lake.table(...).")
        if self._read_only:
            raise FailedPrecondition(
                f"Table {state.full_name} was opened read-only: open it again without read_only to write."
            )
        return state

    def _require_open(self) -> None:
        if self._closed and self.id not in self._context.keyed:
            raise Closed("The table was closed; open it again with lake.table(...).")

    def _set(self, operation: Operation) -> Outcome:
        state = self._writable()
        change = SettingChange(self.id, state.version, operation)
        version = self._context.committer.commit([change]).version
        if (keyed := open_keyed(self._context, self.id)) is not None:
            with after_commit():
                keyed.refresh()
        return Outcome(version)

    def _keyed(self) -> KeyedTable | None:
        """This table as a keyed table; None if it has no primary key."""
        return keyed_table(self._context, self.id)


def whole_number(version: object) -> int:
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidInput(f"A version must be an integer, not {version!r}.")
    return version
