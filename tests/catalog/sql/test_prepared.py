"""Prepared statements do what SQLAlchemy's own execution does, values, rows and errors alike."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from moulin.catalog.sql.drivers import database_url
from moulin.catalog.sql.pool import Pool
from moulin.catalog.sql.prepared import Prepared
from moulin.config import Config
from moulin.errors import Unavailable

META = sa.MetaData()
THINGS = sa.Table(
    "prepared_things",
    META,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("name", sa.String, nullable=False, unique=True),
    sa.Column("size", sa.BigInteger),
    sa.Column("data", sa.LargeBinary),
    sa.Column("notes", sa.JSON(none_as_null=True)),
    sa.Column("inline", sa.Boolean, nullable=False, server_default=sa.false()),
)
INSERT = THINGS.insert()
UPDATE = THINGS.update().where(THINGS.c.id == sa.bindparam("which"))
ONE = sa.select(THINGS).where(THINGS.c.id == sa.bindparam("which"), THINGS.c.size != -1)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def pool(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pool]:
    uri = f"sqlite:///{tmp_path}/c.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    opened = Pool(database_url(uri), Config())
    with opened.unordered() as connection:
        META.create_all(connection)
    yield opened
    with opened.unordered() as connection:
        META.drop_all(connection)
    opened.close()


def some_row(chance: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": uuid.UUID(int=chance.getrandbits(128)),
        "name": f"{number} 100% ü:?",
        "size": chance.choice([None, 0, -5, (1 << 62) + number]),
        "data": chance.choice([None, b"", chance.randbytes(20)]),
        "notes": chance.choice([None, {}, {"a": [1, "x"], "ü": None}]),
        "inline": chance.random() < 0.5,
    }


@pytest.mark.parametrize("watched", [False, True])
def test_rows_are_those_of_sqlalchemy(pool: Pool, watched: bool) -> None:
    chance, seen = random.Random(7), []
    if watched:
        sa.event.listen(pool._engine, "before_cursor_execute", lambda *_: seen.append(1))
    insert, update, one = Prepared(INSERT), Prepared(UPDATE), Prepared(ONE)
    rows = [some_row(chance, number) for number in range(60)]
    with pool.unordered() as connection:
        insert.run(connection, rows[0])
        insert.run(connection, *rows[1:50])
        connection.execute(INSERT, rows[50:])
        insert.run(connection, {"id": uuid.UUID(int=1), "name": "by default"})
        for row in rows[::7]:
            row.update(size=chance.getrandbits(40), notes={"new": True})
            update.run(connection, {"which": row["id"], "size": row["size"], "notes": row["notes"]})
    with pool.read() as connection:
        for row in [*rows, {"id": uuid.UUID(int=1)}]:
            plain = connection.execute(ONE, {"which": row["id"]}).first()
            found = one.first(connection, {"which": row["id"]})
            assert (plain is None) == (found is None)
            if plain is not None:
                assert dict(found._mapping) == dict(plain._mapping)
                assert tuple(found) == tuple(plain)
                assert all(getattr(found, name) == value for name, value in row.items())
    assert bool(seen) == watched


def test_errors_are_those_of_sqlalchemy(pool: Pool) -> None:
    row = some_row(random.Random(1), 1)
    with pytest.raises(exc.IntegrityError), pool._engine.connect() as connection, connection.begin():
        Prepared(INSERT).run(connection, row, {**row, "id": uuid.UUID(int=2)})
    with pytest.raises(exc.DBAPIError), pool._engine.connect() as connection, connection.begin():
        Prepared(sa.select(sa.literal_column("nothing").label("x")).select_from(THINGS)).all(connection, {})
    with pool.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(THINGS)).scalar_one() == 0


def end_backend(pool: Pool, connection: sa.Connection) -> None:
    """PostgreSQL ends the process that serves a connection, as an administrator or a restart does."""
    number = connection.exec_driver_sql("select pg_backend_pid()").scalar_one()
    with pool.unordered() as other:
        other.execute(sa.text("select pg_terminate_backend(:number, 10000)"), {"number": number})


@pytest.mark.parametrize("pool", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
@pytest.mark.parametrize("kind", ["read", "unordered"])
@pytest.mark.parametrize("swallowed", [False, True])
def test_a_connection_that_broke_is_given_up_and_the_next_one_works(pool: Pool, kind: str, swallowed: bool) -> None:
    row = {**some_row(random.Random(1), 1), "size": 5}
    used: list[Any] = []

    def work() -> None:
        with getattr(pool, kind)() as connection:
            used.append(connection.connection.dbapi_connection)
            Prepared(ONE).all(connection, {"which": row["id"]})
            if kind == "unordered":
                Prepared(INSERT).run(connection, row)
            end_backend(pool, connection)
            with suppress(exc.DBAPIError) if swallowed else nullcontext():
                Prepared(ONE).all(connection, {"which": row["id"]})
            Prepared(UPDATE).run(connection, {"which": row["id"], "size": 1})

    with pytest.raises(Unavailable):
        work()
    with pool.unordered() as connection:
        assert connection.connection.dbapi_connection is not used[0]
        assert Prepared(ONE).all(connection, {"which": row["id"]}) == [], "nothing of the transaction stayed"
        Prepared(INSERT).run(connection, row)
    with pool.read() as connection:
        assert Prepared(ONE).first(connection, {"which": row["id"]}).name == row["name"]


def test_lists_in_a_statement_are_refused(pool: Pool) -> None:
    listed = sa.select(THINGS.c.id).where(THINGS.c.size.in_(sa.bindparam("sizes", expanding=True)))
    with pool.read() as connection, pytest.raises(NotImplementedError):
        Prepared(listed).all(connection, {"sizes": [1]})
