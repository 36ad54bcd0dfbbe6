"""The command line, run as a person runs it, but in this process: starting one for each command takes too long."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from moulin.cli.main import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `moulin --lake <a fresh folder> ...`."""
    monkeypatch.setenv("COLUMNS", "160")

    def run_it(*words: str, stdin: str = "", lake: Path | None = None) -> Done:
        monkeypatch.setattr(sys, "argv", ["moulin", "--lake", str(lake or tmp_path / "lake"), *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return run_it
