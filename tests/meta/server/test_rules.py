"""Every rule of the meta service is named by a test, or stands in a list that says why not."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TypeGuard

from tests.meta.rules import SECTIONS

_ID = re.compile(r"\b(?:[A-Z]{2}|GEN)-\d\d\b")

ELSEWHERE = {
    "VW-21": "a view in SQL: tests/pipeline/sql/test_sql.py",
    "CL-11": "the ring: tests of the nursery pipeline",
    "CL-15": "the seed speaks of an election and has no call for it",
    "IG-14": "the collector",
    "IG-15": "the collector",
    "TK-18": "routing by an attribute: the nursery pipeline",
    "TK-19": "an older way of revoking, replaced by tombstones",
    "NU-16": "routing names: the nursery pipeline",
    "NU-17": "routing names: the nursery pipeline",
    "NU-22": "objects past the end of a stream: the collector and the nursery pipeline",
    "NU-53": "which objects are old enough: the nursery pipeline",
    "SD-12": "what a journal is for is unsaid in the seed; docs/formats/journal.md says what it is here",
    "SL-17": "hashes: tests of the cache, of merges and of `moulin check`",
    "JN-15": "settings of another system; ours are in moulin/config.py",
    "SG-04": "segments never change: tests/formats/segment/test_segment.py",
    "SG-05": "ingest times: the nursery pipeline",
}


def named() -> dict[str, list[str]]:
    """The tests that name each rule, in a mark or in their docstrings."""
    found: dict[str, list[str]] = {}
    for file in sorted(Path(__file__).parents[1].rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                marks = [mark.args for mark in node.decorator_list if isinstance(mark, ast.Call) and _is_rule(mark)]
                ids = [str(argument.value) for arguments in marks for argument in arguments if _is_text(argument)]
                for rule in [*ids, *_ID.findall(ast.get_docstring(node) or "")]:
                    found.setdefault(rule, []).append(f"{file.name}::{node.name}")
    return found


def _is_rule(mark: ast.Call) -> bool:
    return isinstance(mark.func, ast.Name) and mark.func.id == "rule"


def _is_text(argument: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(argument, ast.Constant) and isinstance(argument.value, str)


def known() -> set[str]:
    return {f"{section}-{number:02}" for section, count in SECTIONS.items() for number in range(1, count + 1)}


def test_rules_that_are_named_exist() -> None:
    assert not set(named()) - known() - {f"INV-{number}" for number in range(1, 11)}


def test_every_rule_is_named_or_excused() -> None:
    missing = sorted(known() - set(named()) - set(ELSEWHERE))
    assert not missing, missing


def test_nothing_is_excused_that_is_tested() -> None:
    assert not set(named()) & set(ELSEWHERE)
