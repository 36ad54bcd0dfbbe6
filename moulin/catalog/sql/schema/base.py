"""What all tables of the schema share: the metadata, the type of ids, and the constants that rows hold."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import BigInteger, Dialect, Index, Integer, LargeBinary, MetaData, TypeDecorator, Uuid, text
from sqlalchemy.types import TypeEngine

FORMAT = 1  # the lake format that this version writes; a higher one found is refused
OPEN = (1 << 63) - 1
IS_OPEN = f"removed_version = {OPEN}"  # the condition of indexes over what is live now
_WHERE = "where"


class Id(TypeDecorator[uuid.UUID]):
    """A UUID in 16 bytes: PostgreSQL's own type, a BLOB on SQLite."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Uuid() if dialect.name == "postgresql" else LargeBinary(16))

    def process_bind_param(self, value: uuid.UUID | None, dialect: Dialect) -> Any:
        return value if value is None or dialect.name == "postgresql" else value.bytes

    def process_result_value(self, value: Any, dialect: Dialect) -> uuid.UUID | None:
        return value if value is None or isinstance(value, uuid.UUID) else uuid.UUID(bytes=value)


metadata = MetaData()
serial = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows itself only for INTEGER keys


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """An index over the rows for which `where` holds. `complete_metadata` turns that into a database's own clause."""
    return Index(name, *columns, unique=unique, info={_WHERE: where})


def complete_metadata(dialect: str) -> MetaData:
    """The tables with all that making them in a database of this dialect takes.

    Clauses of a dialect load it, and opening a catalog needs PostgreSQL's for PostgreSQL only.
    """
    for table in metadata.tables.values():
        for index in table.indexes:
            if _WHERE in index.info:
                index.dialect_kwargs[f"{dialect}_where"] = text(index.info[_WHERE])
    return metadata
