"""What a program does with the ADBC driver alone: each step's result, or its error, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from adbc_driver_spark import DatabaseOptions, dbapi


def connect(url: str, token: str) -> Any:
    options = {DatabaseOptions.TOKEN.value: token, DatabaseOptions.TLS_ENABLED.value: "false"}
    return dbapi.connect(url, db_kwargs=options)


def rows(connection: Any, text: str, parameters: Any = None) -> list[list[Any]]:
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return [list(found) for found in cursor.fetchall()]


def arrow(connection: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute("select id, amount from shop.orders")
        return str(cursor.fetch_arrow_table().schema)


def objects(connection: Any) -> list[str]:
    found = connection.adbc_get_objects(depth="tables", db_schema_filter="adbc").read_all().to_pylist()
    return [
        f"{catalog['catalog_name']}.{database['db_schema_name']}.{table['table_name']}"
        for catalog in found
        for database in catalog["catalog_db_schemas"]
        for table in database["db_schema_tables"]
    ]


MERGE = """
merge into adbc.made t using (select 2L as id, 'new' as name union all select 3L, 'c') s on t.id = s.id
when matched then update set name = s.name when not matched then insert *"""
Step = Callable[[Any], Any]
CHANGES: dict[str, Step] = {
    "query": lambda c: rows(c, "select id, name from shop.orders where id < ? order by id", (3,)),
    "arrow": arrow,
    "create": lambda c: rows(c, "create database adbc") + rows(c, "create table adbc.made (id long, name string)"),
    "insert": lambda c: rows(c, "insert into adbc.made values (1, 'a'), (2, 'b')")[0][:4],
    "merge": lambda c: rows(c, MERGE)[0][:4],
    "changed": lambda c: rows(c, "select * from adbc.made order by id"),
    "objects": objects,
    "schema": lambda c: str(c.adbc_get_table_schema("made", db_schema_filter="adbc")),
    "show": lambda c: rows(c, "show tables in adbc"),
    "drop": lambda c: rows(c, "drop database adbc cascade"),
    "wrong column": lambda c: rows(c, "select nothing from shop.orders"),
    "file": lambda c: rows(c, "select * from text.`/etc/hostname`"),
}
REFUSED: dict[str, Step] = {"change": lambda c: rows(c, "truncate table shop.orders")}


def main(url: str, token: str, steps: str) -> None:
    found = {}
    with connect(url, token) as connection:
        for name, step in {"changes": CHANGES, "refused": REFUSED}[steps].items():
            try:
                found[name] = step(connection)
            except Exception as error:  # noqa: BLE001 - whatever it is, the test is told
                found[name] = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
