"""What all tables of the schema share: the metadata, the type of ids, and the constants that rows hold."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import BigInteger, Dialect, Integer, LargeBinary, MetaData, TypeDecorator, Uuid
from sqlalchemy.types import TypeEngine

FORMAT = 1  # the lake format that this version writes; a higher one found is refused
OPEN = (1 << 63) - 1
MAIN = 0  # the number of the main branch
IS_OPEN = f"removed_version = {OPEN}"  # the condition of indexes over what is live now


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
