"""The notebook: stored as it ran, and it still runs."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "lab" / "moulin.ipynb"
PLACES = re.compile(r"file://|/tmp|/home/|/root|/work|/dev/shm|/var/")  # of the machine that ran it
RUN = """
import sys
import nbclient, nbformat
found = nbformat.read(sys.argv[1], 4)
resources = {"metadata": {"path": sys.argv[2]}}
nbclient.NotebookClient(found, timeout=300, kernel_name="python3", resources=resources).execute()
nbformat.write(found, sys.argv[3])
"""


def cells(file: Path = NOTEBOOK) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text())["cells"]
    return found


def printed(cell: dict[str, Any]) -> str:
    return "".join(
        "".join(one.get("text", "")) + "".join(one.get("data", {}).get("text/plain", "")) for one in cell["outputs"]
    )


def test_it_is_stored_with_what_it_printed_and_drew_and_no_error() -> None:
    code = [cell for cell in cells() if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [one for cell in code for one in cell["outputs"]]
    assert not [one for one in outputs if one["output_type"] == "error"]
    assert sum("image/png" in one.get("data", {}) for one in outputs) >= 4
    assert sum(bool(printed(cell)) for cell in code) > len(code) // 2


def test_it_names_no_place_of_the_machine_that_ran_it() -> None:
    for cell in cells():
        assert PLACES.search(printed(cell) if cell["cell_type"] == "code" else "".join(cell["source"])) is None


def test_cells_are_short_and_every_part_has_text() -> None:
    found = cells()
    assert max(len(cell["source"]) for cell in found if cell["cell_type"] == "code") <= 30
    headings = [cell["source"][0].strip() for cell in found if "".join(cell["source"]).startswith("## ")]
    assert len(headings) >= 7


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_it_runs_from_top_to_bottom(tmp_path: Path) -> None:
    made = subprocess.run(["make", ".venv/.lab"], cwd=ROOT, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"JupyterLab cannot be installed: {made.stderr.strip().splitlines()[-1][:200]}")
    python = ROOT / ".venv" / "lab" / "bin" / "python"
    after = tmp_path / "after.ipynb"
    command = [str(python), "-c", RUN, str(NOTEBOOK), str(tmp_path), str(after)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(cells(after)) == len(cells())
    assert [bool(cell.get("outputs")) for cell in cells(after)] == [bool(cell.get("outputs")) for cell in cells()]
