"""What errors advise to call exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import moulin
from moulin import Lake, Table
from moulin.cli import main
from moulin.table.transaction import Transaction

SOURCE = Path(moulin.__file__).parent


def advice() -> Iterator[tuple[str, str]]:
    """Each text in a `raise`, and in the tables of advice of `lake.sql`, with the module it is in."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "_proto" in path.parts:
            continue
        tree = ast.parse(path.read_text())
        roots: list[ast.AST] = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
        if path.name == "sql.py":
            roots = [tree]
        for root in roots:
            for node in ast.walk(root):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield str(path.relative_to(SOURCE)), node.value


def test_methods_that_errors_name_exist() -> None:
    owners = {"table": (Table,), "lake": (Lake,), "transaction": (Transaction,)}
    found = [
        (module, owner, name)
        for module, text in advice()
        for owner, name in re.findall(r"(?<![\w.])(table|lake|transaction)\.([a-z]\w+)", text, re.IGNORECASE)
    ]
    assert len(found) > 40
    wrong = [one for one in found if not any(hasattr(owner, one[2]) for owner in owners[one[1].lower()])]
    assert wrong == []


@pytest.mark.parametrize(
    "words", sorted({words for _, text in advice() for words in re.findall(r"`moulin ([a-z]+(?: [a-z]+)?)", text)})
)
def test_commands_that_errors_name_exist(words: str) -> None:
    done = CliRunner().invoke(main.app, [*words.split(), "--help"])
    assert done.exit_code == 0
