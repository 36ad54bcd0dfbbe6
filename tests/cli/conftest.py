"""The command line, run as a person runs it: a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `moulin --lake <a fresh folder> ...`."""

    def run_it(*words: str, stdin: str | None = None, lake: Path | None = None, timeout: float = 120) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "moulin.cli.main", "--lake", str(lake or tmp_path / "lake"), *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "COLUMNS": "160", "NO_COLOR": "1"},
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run_it
