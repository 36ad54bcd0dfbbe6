"""Clients of the SQL server name tables of branches as any other."""

from __future__ import annotations

import grpc
import pyspark.sql.connect.proto as pb
import pytest

from tests.sql_server.conftest import Client, Served
from tests.sql_server.test_sessions import count, refused, sql, statement

pytestmark = pytest.mark.spark


def test_clients_read_and_write_tables_of_a_branch(served: Served, reader: Client, writer: Client) -> None:
    served.lake.branch("remote")
    try:
        named = pb.Plan()
        named.root.read.named_table.unparsed_identifier = "shop.orders@remote"
        assert count(reader.execute(named)) == 5
        writer.execute(statement("delete from shop.orders@remote where id < 3"))
        write = pb.Plan()
        write.command.write_operation_v2.table_name = "shop.orders@remote"
        write.command.write_operation_v2.mode = pb.WriteOperationV2.MODE_APPEND
        write.command.write_operation_v2.input.read.named_table.unparsed_identifier = "shop.orders"
        writer.execute(write)
        joined = "select * from shop.orders@remote b join shop.orders m on b.id = m.id"
        assert count(reader.execute(sql(joined))) == 8
        assert count(reader.execute(sql("select * from shop.orders"))) == 5
        assert refused(lambda: reader.execute(statement("truncate table shop.orders@remote")))[0] is (
            grpc.StatusCode.PERMISSION_DENIED
        )
        assert refused(lambda: reader.execute(sql("select * from shop.orders@nope")))[0] is grpc.StatusCode.NOT_FOUND
    finally:
        served.lake.drop_branch("remote")
