"""Runs the code of a page: `python -m tests.docs.pages PAGE`, in the folder where it should work.

Blocks of `python` and `sh` run in order; Python keeps its names from block to block. A block of `text` right behind one
is what it must print; `...` stands for anything. A block behind `<!-- not run: why -->` is left out.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>.*?) -->\n+)?^```(?P<kind>python|sh)\n(?P<code>.*?)^```\n"
    r"(?:\n*^```text\n(?P<shown>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
_CHECK = doctest.OutputChecker()
_SHELL = 'set -eu\nmoulin() {{ "{python}" -m moulin.cli.main "$@"; }}\n{code}'


@dataclass(frozen=True, slots=True)
class Block:
    """`shown` is what it must print, and None if that is left open. `why` it is not run, if it is not."""

    kind: str
    code: str
    line: int
    shown: str | None
    why: str | None


def blocks(text: str) -> Iterator[Block]:
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        yield Block(found["kind"], found["code"], line, found["shown"], found["why"])


def run(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.why is not None:
            continue
        printed = _python(block, names, page) if block.kind == "python" else in_shell(block.code)
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if block.shown is not None and not _CHECK.check_output(block.shown, printed, options):
            sys.exit(f"{page.name}, line {block.line} prints\n{printed}\nand not\n{block.shown}")


def _python(block: Block, names: dict[str, Any], page: Path) -> str:
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def in_shell(code: str, *, folder: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """What commands print; CalledProcessError if one of them fails."""
    script = _SHELL.format(python=sys.executable, code=code)
    done = subprocess.run(
        ["sh", "-c", script], stdout=subprocess.PIPE, text=True, timeout=170, check=True, cwd=folder, env=environment
    )
    return done.stdout


if __name__ == "__main__":
    run(Path(sys.argv[1]))
