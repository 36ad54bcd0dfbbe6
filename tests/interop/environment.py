"""Environments of their own, for engines that need other versions of what is installed here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def python_with(requirement: str, folder: Path, *options: str) -> Path:
    """The Python of a new environment in `folder` that has `requirement`; skips the test where there is none.

    With the option `-r`, it is the name of a file.
    """
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    command = [str(folder / "bin" / "pip"), "install", "-q", *options, requirement]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"{requirement} cannot be installed: {done.stderr.strip()[-200:]}")
    return folder / "bin" / "python"


def run_python(
    python: Path, script: Path, *arguments: str, folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script in `folder` with the Python of another environment, out of reach of this one's settings."""
    outside = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK_"))}
    return subprocess.run(
        [str(python), str(script), *arguments],
        env={**outside, **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=folder,
    )
