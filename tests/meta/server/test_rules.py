"""Every rule of docs/meta-rules.md is named by a test, or stands in a list that says where it is covered."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import TypeGuard

META = Path(__file__).parents[1]
TESTS = META.parent
PAGE = TESTS.parent / "docs" / "meta-rules.md"
_ID = re.compile(r"\b(?:(?:[A-Z]{2}|GEN)-\d\d|INV-\d+)\b")
_ON_THE_PAGE = re.compile(r"^- \*\*([A-Z]+)-(\d+)\*\* \S", re.MULTILINE)

ELSEWHERE = {
    "VW-21": "a view in SQL: tests/pipeline/sql/test_sql.py",
    "CL-11": "not done: nothing assigns streams by weight (docs/decisions/0075)",
    "CL-15": "there is no call for it; leases: tests/catalog/upkeep/test_clocks.py",
    "IG-14": "the collector",
    "IG-15": "the collector",
    "TK-18": "routing by an attribute: the nursery pipeline",
    "TK-19": "there is no call for it; dropping is TK-09 and TK-10",
    "NU-16": "routing names: the nursery pipeline",
    "NU-17": "routing names: the nursery pipeline",
    "NU-22": "objects past the end of a stream: the collector and the nursery pipeline",
    "NU-53": "which objects are old enough: the nursery pipeline",
    "SD-12": "journals: tests/formats/test_journal.py",
    "SL-17": "hashes: tests/catalog/upkeep/test_check.py and tests/test_mirror.py",
    "JN-15": "a pointer to moulin/config.py, which promises nothing by itself",
    "SG-04": "segments never change: tests/formats/segment/test_writer.py",
    "SG-05": "ingest times: the nursery pipeline",
    "INV-1": "tests/crash/test_storm.py",
    "INV-3": "tests/crash/test_storm.py",
    "INV-7": "tests/crash/test_storm.py",
    "INV-8": "tests/pipeline/nursery/test_nursery.py and tests/crash/test_storm.py",
    "INV-9": "tests/crash/test_storm.py",
    "INV-10": "tests/crash/test_storm.py",
}


@functools.cache
def named(folder: Path = META) -> dict[str, list[str]]:
    """The tests below `folder` that name each rule, in a mark or in their docstrings."""
    found: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("test_*.py")):
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


def known() -> list[str]:
    """The rules of the page, in its order."""
    return ["-".join(found) for found in _ON_THE_PAGE.findall(PAGE.read_text(encoding="utf-8"))]


def test_the_page_numbers_the_rules_of_each_section_without_a_gap() -> None:
    sections: dict[str, list[int]] = {}
    for rule in known():
        section, number = rule.split("-")
        sections.setdefault(section, []).append(int(number))
    assert len(sections) == 14
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in sections.values()), sections


def test_every_rule_that_a_test_names_is_on_the_page() -> None:
    assert not set(named(TESTS)) - set(known())


def test_every_rule_of_the_page_is_named_or_covered_elsewhere() -> None:
    missing = sorted(set(known()) - named().keys() - ELSEWHERE.keys())
    assert not missing, missing


def test_only_rules_of_the_page_that_no_test_names_are_covered_elsewhere() -> None:
    assert ELSEWHERE.keys() <= set(known())
    assert not set(named()) & set(ELSEWHERE)
