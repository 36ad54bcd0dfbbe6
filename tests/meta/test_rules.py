"""Every rule of the meta service is named by a test, or stands in a list that says why not."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.meta.rules import SECTIONS

# Sections whose services are tested here in full.
CHECKED = ("GEN", "DB", "TB", "VW", "CL", "IG", "TK", "NU")

ELSEWHERE = {
    "GEN-01": "the port: tests of the server's configuration",
    "GEN-02": "reflection: tests of the server",
    "GEN-03": "the eleven services: tests of the server",
    "TB-30": "tasks carry the sharding fields: tests of merge tasks",
    "TB-34": "retention: tests of the janitor",
    "TB-35": "retention: tests of the janitor",
    "VW-21": "a view in SQL: tests/pipeline/test_sql.py",
    "CL-11": "the ring: tests of the nursery pipeline",
    "CL-13": "outbound calls carry the cluster id: tests of the server",
    "CL-15": "the seed speaks of an election and has no call for it",
    "IG-14": "the collector",
    "IG-15": "the collector",
    "TK-18": "routing by an attribute: the nursery pipeline",
    "TK-19": "an older way of revoking, replaced by tombstones",
    "NU-16": "routing names: the nursery pipeline",
    "NU-17": "routing names: the nursery pipeline",
    "NU-22": "objects past the end of a stream: the collector and the nursery pipeline",
    "NU-53": "which objects are old enough: the nursery pipeline",
}


def named() -> dict[str, list[str]]:
    """The tests that name each rule."""
    found: dict[str, list[str]] = {}
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "rule":
                    for argument in mark.args:
                        assert isinstance(argument, ast.Constant)
                        found.setdefault(str(argument.value), []).append(f"{file.name}::{node.name}")
    return found


def known(sections: tuple[str, ...] | None = None) -> set[str]:
    return {
        f"{section}-{number:02}"
        for section, count in SECTIONS.items()
        if sections is None or section in sections
        for number in range(1, count + 1)
    }


def test_rules_that_are_named_exist() -> None:
    assert not set(named()) - known() - {f"INV-{number}" for number in range(1, 11)}


def test_every_rule_is_named_or_excused() -> None:
    missing = sorted(known(CHECKED) - set(named()) - set(ELSEWHERE))
    assert not missing, missing


def test_nothing_is_excused_that_is_tested() -> None:
    assert not {rule for rule in set(named()) & set(ELSEWHERE) if rule[:3] != "GEN"}
