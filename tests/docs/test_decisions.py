"""Decision records follow the template, and records and code name each other."""

# Decisions: docs/decisions/0216

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "decisions"
RECORDS = {path.name[:4]: path for path in sorted(FOLDER.glob("[0-9]*.md")) if path.name != "0000-template.md"}
SECTIONS = ["Decided", "Why", "Rejected", "Consequences", "Where in the code"]
_HEAD = re.compile(r"# (\d{4}): \S.*\n\n- Status: (accepted|superseded by (\d{4}))\n- Date: (\d{4}-\d\d-\d\d)\n\n## ")
_NAMED = re.compile(r"docs/decisions/(\d{4})")


def places(record: Path) -> list[str]:
    """The files that a record links under "Where in the code"."""
    _, _, section = record.read_text(encoding="utf-8").partition("\n## Where in the code\n")
    return re.findall(r"^- \[[^]]+\]\(\.\./\.\./([^)]+)\)", section, re.MULTILINE)


@pytest.mark.parametrize("number", RECORDS)
def test_a_record_has_number_status_date_and_sections_in_order(number: str) -> None:
    text = RECORDS[number].read_text(encoding="utf-8")
    head = _HEAD.match(text)
    assert head is not None, text[:200]
    assert head[1] == number
    assert head[3] is None or head[3] in RECORDS
    date.fromisoformat(head[4])
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert sections == [name for name in SECTIONS if name in sections]
    assert {"Decided", "Why", "Where in the code"} <= set(sections)


def test_the_readme_lists_every_record_once() -> None:
    listed = re.findall(
        r"^\| \[(\d{4})\]\(([^)]+)\) \| \S", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(listed) == [(number, path.name) for number, path in RECORDS.items()]


@pytest.mark.parametrize("number", RECORDS)
def test_the_main_module_of_a_record_names_it(number: str) -> None:
    if "\n- Status: superseded" in RECORDS[number].read_text(encoding="utf-8"):
        return
    first, *rest = places(RECORDS[number])
    assert all((ROOT / path).is_file() for path in [first, *rest]), [first, *rest]
    assert number in _NAMED.findall((ROOT / first).read_text(encoding="utf-8")), f"{first} does not name {number}"


def test_records_that_code_and_docs_name_exist() -> None:
    files = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")]
    for folder, pattern in [
        ("moulin", "*.py"),
        ("tests", "*.py"),
        ("benchmarks", "*.py"),
        ("docs", "*.md"),
        ("proto", "*.proto"),
    ]:
        files += (ROOT / folder).rglob(pattern)
    named = {
        (file, number)
        for file in files
        if file.is_file()
        for number in _NAMED.findall(file.read_text(encoding="utf-8"))
    }
    assert not {(file, number) for file, number in named if number not in RECORDS and number != "0000"}
