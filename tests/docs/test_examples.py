"""Every example runs, in a lake of its own, and prints what it should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Spark starts anew for each: not worth the better compiler.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
EXPECTED = {
    "api.py": r"1 tables, 1 rows, version 4\nshop\.orders: 1 rows in 1 segments, last delete",
    "adopt.py": r"3 files, 9 rows, \['exports'\]\n(?s:.*)3 files are known\n1 row moved\n9 rows",
    "corrections.py": r"hottest: 12\.0 now, 850\.0 at version \d+",
    "two_tables.py": r"6 open, 4 archived, both at version \d+",
    "spark_sql.py": r"9 pages now, 10 at version \d+; 90000 rows without Spark",
}


@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "examples").glob("*.py")))
def test_an_example_runs_and_prints_what_it_should(example: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example), str(tmp_path / "lake")],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=tmp_path,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(EXPECTED[example], done.stdout), done.stdout


def test_the_readme_prints_what_it_shows(tmp_path: Path) -> None:
    """The first code block of the README, as it stands, and the output below it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", text, re.DOTALL)
    assert block is not None
    assert text[: block.start()].count("\n") < 20
    done = subprocess.run(
        [sys.executable, "-c", block[1]],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=tmp_path,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == block[2].strip()
    assert (tmp_path / "orders-iceberg" / "metadata" / "version-hint.text").exists()
