"""The lists of messages and fields, against the messages that this PySpark has."""

from __future__ import annotations

import pyspark.sql.connect.proto as pb
import pytest
from google.protobuf import descriptor_pool

from moulin.errors import InvalidInput, PermissionDenied, Unsupported
from moulin.pipeline.connect import allowed


def fields(message: str) -> set[str]:
    found = descriptor_pool.Default().FindMessageTypeByName(message)
    return {field.name for field in found.fields}


def test_every_field_that_is_taken_is_one_of_connect() -> None:
    assert pb.Relation.DESCRIPTOR.full_name in allowed._ALLOWED
    for message, names in allowed._ALLOWED.items():
        assert names <= fields(message), message


def test_every_reason_is_of_a_field_that_is_not_taken() -> None:
    for path in allowed._REASONS:
        message, _, field = path.rpartition(".")
        assert field in fields(f"spark.connect.{message}"), path
        assert field not in allowed._ALLOWED[f"spark.connect.{message}"], path


def test_every_relation_and_command_that_is_not_listed_is_refused() -> None:
    for message in (pb.Relation, pb.Command, pb.Expression, pb.Catalog):
        for field in message.DESCRIPTOR.fields:
            if field.name in allowed._ALLOWED[message.DESCRIPTOR.full_name]:
                continue
            found = message()
            getattr(found, field.name).SetInParent()
            with pytest.raises((PermissionDenied, Unsupported)):
                allowed.check(found)


@pytest.mark.parametrize("depth", [8, 9])
def test_expressions_inside_one_another_are_bounded_where_spark_writes_them_twice(depth: int) -> None:
    nested = pb.Expression(literal=pb.Expression.Literal(integer=1))
    for _ in range(depth):
        nested = pb.Expression(
            unresolved_function=pb.Expression.UnresolvedFunction(function_name="when", arguments=[nested])
        )
    if depth == 8:
        allowed.check(nested)
    else:
        with pytest.raises(InvalidInput, match="at most 8 CASE"):
            allowed.check(nested)
