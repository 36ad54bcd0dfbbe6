"""Starts workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import UUID

ROOT = Path(__file__).parents[2]


def start_worker(catalog: str, storage: Path, table_id: UUID, count: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.contract.worker", catalog, str(storage), str(table_id), str(count), *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def versions_of(worker: subprocess.Popen[str], *, killed: bool = False) -> list[int]:
    """Wait for a worker, and return the versions that it was told to have committed."""
    out, err = worker.communicate(timeout=240)
    assert (worker.returncode < 0) == killed, err
    assert killed or worker.returncode == 0, err
    return [int(line) for line in out.split()]
