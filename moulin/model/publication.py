"""The settings of a table that a branch and main may both have changed: which ones main's table gets, and conflicts."""

# Decisions: docs/decisions/0413

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from moulin.errors import Conflict
from moulin.model.branch_ids import next_schema_id
from moulin.model.entities import TableState
from moulin.model.filling import computed_marks
from moulin.model.schema.evolution import loses_values
from moulin.model.schema.nulls import newly_required
from moulin.model.schema.schema import nested_ids
from moulin.model.schema.values import NestedField, Schema
from moulin.model.tags import shown, trust_marks


@dataclass(frozen=True, slots=True)
class Merged:
    """What a publish changes of the settings of main's table; None where they stay. `keys` are changed properties."""

    schema: Schema | None = None
    schema_id: int | None = None
    spec_id: int | None = None
    sort_order_id: int | None = None
    last_column_id: int | None = None
    last_partition_id: int | None = None
    properties: Mapping[str, str] | None = None
    keys: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def merge_settings(name: str, branch: str, then: TableState, main: TableState, own: TableState) -> Merged:
    """What a publish changes: `then` is main's table when the branch began, `main` it is now, `own` is the branch's.

    Raises Conflict, with both sides, where both changed the same and not to the same.
    """
    changed = _Sides(name, branch, then, main, own)
    schema = changed.schema()
    spec_id = changed.choose("partitioning", "specs", "spec_id")
    sort_order_id = changed.choose("sort order", "sort_orders", "sort_order_id")
    _require_same_values(changed)
    properties, keys = changed.properties()
    return Merged(
        schema,
        None if schema is None else schema.schema_id,
        spec_id,
        sort_order_id,
        None if schema is None else max(main.last_column_id, own.last_column_id),
        None if spec_id is None else max(main.last_partition_id, own.last_partition_id),
        properties,
        keys,
        schema_changes(then, own) if schema is not None else (),
    )


def foreseen(main: TableState, own: TableState, merged: Merged) -> TableState:
    """What main's table becomes, as far as its settings go."""
    schemas = {**own.schemas, **main.schemas}
    if merged.schema is not None:
        schemas[merged.schema.schema_id] = merged.schema
    return replace(
        main,
        schemas=schemas,
        schema_id=main.schema_id if merged.schema_id is None else merged.schema_id,
        specs={**own.specs, **main.specs},
        spec_id=main.spec_id if merged.spec_id is None else merged.spec_id,
        sort_orders={**own.sort_orders, **main.sort_orders},
        sort_order_id=main.sort_order_id if merged.sort_order_id is None else merged.sort_order_id,
    )


@dataclass(frozen=True, slots=True)
class _Sides:
    name: str
    branch: str
    then: TableState
    main: TableState
    own: TableState

    def choose(self, what: str, many: str, one: str) -> int | None:
        """The branch's number of a setting when main's table is to get it; None when main's stays."""
        then, main, own = (getattr(state, one) for state in (self.then, self.main, self.own))
        mine: Mapping[int, Any] = getattr(self.main, many)
        theirs: Mapping[int, Any] = getattr(self.own, many)
        differ = [number for number in mine if number not in theirs or mine[number] != theirs[number]]
        if own == then:
            return None
        if main == own and not differ:
            return None
        if main != then or differ:
            raise self.conflict(
                what,
                self.words(what, mine[main]),
                self.words(what, theirs[own]),
                "Undo one of the two, and publish again.",
            )
        return int(own)

    def schema(self) -> Schema | None:
        """The schema that main's table gets; None when main's stays. Columns that each side added come together."""
        then, main, own = self.then.schema, self.main.schema, self.own.schema
        if own.schema_id == then.schema_id or main == own:
            return None
        common = self.main.schemas.keys() & self.own.schemas.keys()
        if any(self.main.schemas[number] != self.own.schemas[number] for number in common):
            raise self._other_schema()  # the segments of one side would be read with the schema of the other
        if main.schema_id == then.schema_id:
            return own
        if _only_adds(then, own):
            return self._with_columns(main, own)
        if _only_adds(then, main):
            return self._with_columns(own, main)
        raise self._other_schema()

    def _with_columns(self, schema: Schema, adding: Schema) -> Schema:
        """`schema` with the columns that the other side added."""
        known = set(self.then.schema.field_ids)
        added = [field for field in adding.fields if field.field_id not in known]
        names = {field.name.casefold(): field.name for field in schema.fields}
        for field in added:
            if field.name.casefold() in names:
                advice = "Rename it on one of the two sides, and publish again."
                main, own = (_shown(side.schema, field.name) for side in (self.main, self.own))
                raise self.conflict(f"column {field.name}", main, own, advice)
        if set(schema.field_ids) & {number for field in added for number in nested_ids(field)}:
            raise self._other_schema()
        number = next_schema_id([*self.main.schemas, *self.own.schemas], 0)
        key = schema.identifier_field_ids
        return Schema(*schema.fields, *added, schema_id=number, identifier_field_ids=key, metadata=schema.metadata)

    def _other_schema(self) -> Conflict:
        main, own = (self.words("schema", side.schema) for side in (self.main, self.own))
        return self.conflict("schema", main, own, "Undo one of the two, and publish again.")

    def words(self, what: str, setting: Any) -> str:
        if what != "schema":
            return str(setting)
        return ", ".join(f"{one.name} {one.field_type}" for one in setting.fields)

    def properties(self) -> tuple[Mapping[str, str] | None, tuple[str, ...]]:
        then, main, own = (_published(state.properties) for state in (self.then, self.main, self.own))
        wanted = [key for key in sorted({*then, *own}) if then.get(key) != own.get(key) != main.get(key)]
        for key in wanted:
            if main.get(key) != then.get(key):
                raise self.conflict(
                    f"property {key!r}", main.get(key), own.get(key), "Set it to the same value on both sides."
                )
        marks = {
            key: value for key, value in trust_marks(self.own.properties).items() if key not in self.main.properties
        }
        if not wanted and not marks:
            return None, ()
        kept = {key: value for key, value in self.main.properties.items() if key not in wanted}
        return {**kept, **marks, **{key: own[key] for key in wanted if key in own}}, tuple(wanted)

    def conflict(self, what: str, on_main: object, on_branch: object, advice: str) -> Conflict:
        return Conflict(
            f"Table {self.name}: both main and branch {self.branch} changed the {what} since version "
            f"{self.then.version}: it is ({on_main}) on main at version {self.main.head_version} and ({on_branch}) on "
            f"the branch at version {self.own.head_version}. {advice}",
            requirement=f"the {what} of {self.name}",
            expected=on_branch,
            found=on_main,
            winner=self.main.head_version,
        )


def _published(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that a publish compares: those of users, and how columns are computed."""
    return shown(properties) | computed_marks(properties)


def _only_adds(then: Schema, now: Schema) -> bool:
    """Whether columns were added and nothing else was changed."""
    known = set(then.field_ids)
    rest = tuple(field for field in now.fields if field.field_id in known)
    same_key = set(then.identifier_field_ids) == set(now.identifier_field_ids)
    return rest == tuple(then.fields) and same_key and then.metadata == now.metadata


def _shown(schema: Schema, name: str) -> str:
    """A column of this name, however it is written."""
    found = next(field for field in schema.fields if field.name.casefold() == name.casefold())
    return f"{found.name} {found.field_type}"


def _require_same_values(sides: _Sides) -> None:
    """Rows of one side must be whole in the schema of the other."""
    then, main, own = sides.then, sides.main, sides.own
    if main.head_version <= then.version:
        return
    for side, state, rows in (("the branch", own, "main"), ("main", main, "the branch")):
        if state.schema_id == then.schema_id or main.schema_id == own.schema_id:
            continue
        name = loses_values(then.schema, state.schema)
        name = name or next((field.name for field in newly_required(then.schema, state.schema)), None)
        if name is not None:
            raise Conflict(
                f"Table {sides.name}: column {name} was cast, computed again or made required on {side} "
                f"while rows were added on {rows}. Make the change on main after the branch is published.",
                requirement=f"column {name} of {sides.name}",
                expected="as it was when the branch began",
                found="another",
                winner=main.head_version,
            )


def schema_changes(then: TableState, now: TableState) -> tuple[str, ...]:
    """What differs in columns, partitioning and order, in words."""
    lines: list[str] = []
    if then.schema_id != now.schema_id:
        old = {one.field_id: one for one in then.schema.fields}
        new = {one.field_id: one for one in now.schema.fields}
        lines += [f"drop column {one.name}" for number, one in old.items() if number not in new]
        lines += [f"add column {one.name} {one.field_type}" for number, one in new.items() if number not in old]
        lines += [line for number in sorted(old.keys() & new.keys()) for line in _column(old[number], new[number])]
        lines = lines or ["move columns"]
    if then.spec_id != now.spec_id:
        lines.append("change the partitioning")
    if then.sort_order_id != now.sort_order_id:
        lines.append("change the sort order")
    return tuple(lines)


def _column(old: NestedField, new: NestedField) -> list[str]:
    lines = []
    if old.name != new.name:
        lines.append(f"rename column {old.name} to {new.name}")
    if old.field_type != new.field_type:
        lines.append(f"change column {new.name} from {old.field_type} to {new.field_type}")
    elif (old.required, old.doc, old.initial_default, old.write_default) != (
        new.required,
        new.doc,
        new.initial_default,
        new.write_default,
    ):
        lines.append(f"change column {new.name}")
    return lines
