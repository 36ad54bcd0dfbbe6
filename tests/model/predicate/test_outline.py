"""Outlines of conditions say which columns were compared, and with no value."""

from __future__ import annotations

import pytest

from moulin.model.schema.schema import make_schema
from moulin.model.where import parse_where

SCHEMA = make_schema([("id", "long"), ("user", "string"), ("x", "double"), ("d", "decimal(9,2)")])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("user = 'secret'", "user = ?"),
        ("user in ('secret', 'other')", "user in (?)"),
        ("not user like 'secret%' and id > 77", "id >= ? and user not like ?"),
        ("(id = 77 or user is null) and d < 1.50", "d <= ? and (id = ? or user is null)"),
        ("isnan(x)", "isnan(x)"),
        ("true", "true"),
    ],
)
def test_an_outline_has_columns_and_operators_alone(where: str, expected: str) -> None:
    found = parse_where(where, SCHEMA).outline()
    assert found == expected
    assert "secret" not in found
    assert "77" not in found
