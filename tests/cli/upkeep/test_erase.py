"""`moulin erase`: rows go, a report is written, and its signature can be checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import moulin
from moulin.errors import InvalidInput
from moulin.table.erase.report import key_of, sign, verify
from tests.cli.conftest import Run

KEY = b"0123456789abcdef-key"


def test_a_report_is_signed_and_checked() -> None:
    body = {"format": 1, "rows": 3, "table": "shop.t"}
    signed = sign(body, KEY)
    assert verify(signed, KEY) == "signed with this key"
    assert verify(sign(body, None), None).startswith("undamaged")
    for report, key in (
        ({**signed, "rows": 2}, KEY),
        (signed, b"another key of sixteen"),
        (signed, None),
        (sign(body, None), KEY),
        (body, KEY),
        ([], KEY),
        ({**sign(body, None), "rows": 4}, None),
    ):
        with pytest.raises(InvalidInput):
            verify(report, key)
    with pytest.raises(InvalidInput):
        key_of("short")


def test_erase_writes_a_report_that_verifies(tmp_path: Path, run: Run) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long"), ("name", "string")])
        table.append([{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}])
    key, report = tmp_path / "key", tmp_path / "report.json"
    key.write_bytes(KEY)
    signed = ("--key-file", str(key))
    assert run("erase", "shop.t", "--where", "id = 2", "--yes", "--report", str(report), *signed).code == 0
    found = json.loads(report.read_text())
    assert found["condition"] == "id = ?"
    assert "bob" not in report.read_text()
    assert "signed with this key" in run("erase", "--verify", str(report), *signed).out
    report.write_text(report.read_text().replace('"rows": 1', '"rows": 0'))
    assert run("erase", "--verify", str(report), *signed).code != 0
    assert run("erase", "shop.t", "--where", "id = 1", stdin="n\n").code != 0
    with moulin.connect(tmp_path / "lake") as lake:
        assert lake.table("shop.t").scan().to_pylist() == [{"id": 1, "name": "ann"}]
