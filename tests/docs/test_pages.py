"""The code of every page for users runs as it stands, in an empty folder, and prints what the page shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import reference
from tests.docs.pages import blocks
from tests.docs.test_examples import ENVIRONMENT, ROOT

_FOLDERS = [ROOT / "docs" / name for name in ("tutorials", "howto", "reference", "operations")]
PAGES = [ROOT / "docs" / name for name in ("start.md", "branches.md")]
PAGES += sorted(page for folder in _FOLDERS for page in folder.rglob("*.md"))


def name(page: Path) -> str:
    return page.relative_to(ROOT / "docs").as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if list(blocks(page.read_text()))], ids=name)
def test_the_code_of_a_page_runs_and_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    columns = {**ENVIRONMENT, "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.pages", str(page)],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=tmp_path,
        env=columns,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-500:]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_block_that_is_not_run_says_why(page: Path) -> None:
    assert all(block.why is None or len(block.why) > 10 for block in blocks(page.read_text()))


@pytest.mark.parametrize("page", reference.PAGES)
def test_a_reference_page_says_what_the_code_says(page: str) -> None:
    written = (reference.REFERENCE / page).read_text(encoding="utf-8")
    assert written == reference.text(page), "run: python -m tests.docs.reference"
