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

    def document(self) -> Any:
        """What --json printed, as it is."""
        return json.loads(self.out)

    def json(self) -> Any:
        """What --json printed, without what is around it: the list, the row, or the values."""
        document = self.document()
        if not isinstance(document, dict):
            return document
        assert document.pop("json_version") == 1
        return next(iter(document.values())) if document.keys() in ({"rows"}, {"row"}) else document


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
