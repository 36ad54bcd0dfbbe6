"""SET and temporary views, sent as SQL: they concern one session, and open nothing that is closed otherwise."""

from __future__ import annotations

from typing import Any

import grpc
import pyarrow as pa
import pytest

from tests.sql_server.conftest import Client, Served
from tests.sql_server.test_sessions import count, refused, sql, statement

pytestmark = pytest.mark.spark


def answer(client: Client, text: str) -> list[dict[str, Any]]:
    """The rows that come with the answer to a statement."""
    (relation,) = [
        one.sql_command_result.relation for one in client.execute(statement(text)) if one.HasField("sql_command_result")
    ]
    return pa.ipc.open_stream(relation.local_relation.data).read_all().to_pylist()


def test_a_temporary_view_belongs_to_its_session(served: Served, reader: Client) -> None:
    text = (
        "/* made by a tool */ create {} view late as with o as (select * from shop.orders) select * from o where id > 3"
    )
    assert answer(reader, text.format("or replace temporary")) == []
    assert count(reader.execute(sql("select * from late"))) == 2
    assert refused(lambda: reader.execute(statement(text.format("temporary"))))[0] is grpc.StatusCode.ALREADY_EXISTS
    answer(reader, "create or replace temporary view late as select * from shop.orders where id > 4")
    assert count(reader.execute(sql("select * from late join shop.orders using (id)"))) == 1
    other = served.client("other")
    assert refused(lambda: other.execute(sql("select * from late")))[0] is grpc.StatusCode.PERMISSION_DENIED
    other.close()
    answer(reader, "drop view late")
    assert refused(lambda: reader.execute(sql("select * from late")))[0] is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    "text",
    [
        "create temporary view v as select * from text.`/etc/hostname`",
        "create temporary view v using text options (path '/etc/hostname')",
        "create temporary view v as select java_method('java.lang.System', 'getenv', 'HOME')",
        "create global temporary view v as select 1",
        "create temporary view v (a, b) as select 1, 2",
        "set spark.sql.warehouse.dir = /tmp/x",
        "set spark.hadoop.fs.s3a.secret.key",
        "set spark.sql.extensions",
        "set -v",
        "set nonsense nonsense",
        "set spark.sql.session.timeZone = Nowhere/At/All",
    ],
)
def test_sql_about_a_session_opens_nothing(reader: Client, text: str) -> None:
    assert refused(lambda: reader.execute(statement(text)))[0] in (
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
    )
    assert refused(lambda: reader.execute(sql("select * from v")))[0] is grpc.StatusCode.PERMISSION_DENIED


def test_settings_are_set_by_sql(served: Served, reader: Client, writer: Client) -> None:
    assert answer(reader, "set spark.sql.session.timeZone = Asia/Tokyo") == [
        {"key": "spark.sql.session.timeZone", "value": "Asia/Tokyo"}
    ]
    assert answer(reader, "-- what is it?\nset spark.sql.session.timeZone")[0]["value"] == "Asia/Tokyo"
    assert {"key": "spark.sql.session.timeZone", "value": "Asia/Tokyo"} in answer(reader, "set")
    served.lake.create_table("shop.days", [("id", "long"), ("day", "string")], partition_by=["day"], if_not_exists=True)
    writer.execute(statement("insert overwrite shop.days values (1, 'a'), (2, 'b')"))
    writer.execute(statement("set spark.sql.sources.partitionOverwriteMode = dynamic"))
    writer.execute(statement("insert overwrite shop.days values (3, 'b')"))
    assert sorted(row["id"] for row in served.lake.table("shop.days").scan().to_pylist()) == [1, 3]


def test_tables_are_listed_as_tools_read_them(served: Served, reader: Client) -> None:
    served.lake.create_view("shop.few", sql="select id from shop.orders where id < 3", replace=True)
    found = {row["tableName"]: row["information"] for row in answer(reader, "show table extended in shop like '*'")}
    assert "Type: VIEW" in found["few"]
    assert "Type: MANAGED\nProvider: iceberg\nSchema: root\n |-- id: long (nullable = false)" in found["orders"]
    assert [row["tableName"] for row in answer(reader, "show table extended from shop like 'f*'")] == ["few"]
