"""The code of every page for users runs as it stands, in an empty folder, and prints what the page shows."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import moulin
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


@pytest.mark.parametrize("page", [*PAGES, ROOT / "docs" / "compatibility.md"], ids=name)
def test_every_block_names_its_language(page: Path) -> None:
    """One that has none is not known to be code: it would be neither run nor listed."""
    fences = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("```")]
    assert "```" not in fences[::2]


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """Formats, decisions and the map have pages of their own that lead to them."""

    def paths(entry: Any) -> set[str]:
        inner = entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ()
        return {entry} if isinstance(entry, str) else set().union(*map(paths, inner))

    listed = paths(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert {name(page) for page in PAGES} - listed == set()


def test_the_page_of_python_has_every_exported_name() -> None:
    text = (reference.REFERENCE / "python.md").read_text(encoding="utf-8")
    assert {one for one in moulin.__all__ if not re.search(rf"^::: moulin\S*\.{one}$", text, re.MULTILINE)} == set()


def test_alerts_are_rules_about_metrics_that_there_are(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "howto" / "monitor.md").read_text(encoding="utf-8")
    block = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert block is not None
    rules = [rule for group in yaml.safe_load(block[1])["groups"] for rule in group["rules"]]
    assert len(rules) >= 4
    exported = set(re.findall(r"`(moulin_\w+)`", (reference.REFERENCE / "metrics.md").read_text(encoding="utf-8")))
    assert {one for rule in rules for one in re.findall(r"moulin_\w+", rule["expr"])} <= exported
    if (promtool := shutil.which("promtool")) is not None:
        (tmp_path / "rules.yaml").write_text(block[1], encoding="utf-8")
        subprocess.run([promtool, "check", "rules", tmp_path / "rules.yaml"], check=True, capture_output=True)


_EXTRA_OF = {"duckdb": "duckdb", "polars": "polars", "pyspark": "spark", "opentelemetry": "opentelemetry-sdk"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_says_what_to_install_for_what_it_imports_and_calls(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code = "".join(block.code for block in blocks(text) if block.kind == "python" and block.why is None)
    wanted = {
        extra for package, extra in _EXTRA_OF.items() if re.search(rf"^(import|from) {package}", code, re.MULTILINE)
    }
    wanted |= {"duckdb"} if ".duckdb(" in code else set()
    wanted |= {"spark"} if re.search(r"lake\.(sql|spark)\(", code) else set()
    installed = " ".join(re.findall(r"pip install ([^`\n]+)", text))
    assert {one for one in wanted if one not in installed} == set()
