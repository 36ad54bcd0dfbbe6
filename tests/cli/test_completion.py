"""What a shell is offered when somebody presses Tab: names of the lake, and nothing that it would run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import moulin

MOULIN = "import sys; sys.argv[0] = 'moulin'; from moulin.cli.main import main; main()"
HOSTILE = (
    "\\$(touch pwned)",
    '\\";touch pwned;\\"',
    "$(touch pwned)",
    "x;touch pwned",
    "x'; touch pwned; '",
    "*",
    "a b",
    "x|sh",
    "x>pwned",
    "x:(y)",
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with moulin.connect(tmp_path / "lake") as opened:
        opened.create_database("shop")
        opened.create_database("deep.er")
        for name in ("orders", "größe", "old-ones", *HOSTILE):
            opened.create_table(f"shop.{name}", [("id", "long")])
        opened.create_table("`deep.er`.x", [("id", "long")])
    return tmp_path / "lake"


def offered(lake: Path, shell: str, typed: str) -> str:
    words = f"moulin --lake {lake} {typed}"
    environment = {
        **os.environ,
        "_MOULIN_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", MOULIN], env=environment, capture_output=True, text=True, check=False, cwd=lake.parent
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_name_that_a_shell_might_run_is_not_offered(lake: Path, shell: str) -> None:
    """zsh evaluates what it is offered, so that a table could run commands of whoever made it."""
    found = offered(lake, shell, "table show ")
    for name in ("shop.orders", "shop.größe", "shop.old-ones"):
        assert name in found, found
    assert "pwned" not in found
    assert not [name for name in HOSTILE if f"shop.{name}" in found]
