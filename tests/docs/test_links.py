"""Links and paths in docs lead somewhere, and so do paths of modules in docstrings and comments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MODULES = {
    path.relative_to(ROOT).as_posix()
    for top in ("moulin", "tests", "benchmarks", "examples")
    for path in (ROOT / top).rglob("*.py")
}
NAMES = {path.rpartition("/")[2] for path in MODULES} | {"pyspark_moulin.py"}
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_MODULE = re.compile(r"(?<![\w/.*<>-])((?:[a-z_0-9]+/)*[a-z_0-9]+\.py)\b")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """What its headings are called in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_nowhere(page: Path, target: str) -> bool:
    file, _, anchor = target.partition("#")
    found = (page.parent / file).resolve() if file else page
    return not found.exists() or (bool(anchor) and found.suffix == ".md" and anchor not in anchors(found))


def is_module(path: str) -> bool:
    """A path from the root, or below `moulin/`, or within a room (`keyed/log/log.py`), or a name beside the reader."""
    if "/" not in path:
        return path in NAMES
    return path in MODULES or any(module.endswith("/" + path) for module in MODULES)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = [found for found in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in found]
    if page.name == "0000-template.md":
        targets = [target for target in targets if "path/of/module.py" not in target]
    assert [target for target in targets if leads_nowhere(page, target)] == []


def test_every_module_that_a_page_or_docstring_names_exists() -> None:
    pages = [page for page in PAGES if page.name not in ("CHANGELOG.md", "0000-template.md")]
    sources = [path for path in (ROOT / "moulin").rglob("*.py") if "_proto" not in path.parts]
    named = {
        (name(file), path) for file in [*pages, *sources] for path in _MODULE.findall(file.read_text(encoding="utf-8"))
    }
    assert sorted((file, path) for file, path in named if not is_module(path)) == []


def test_the_map_of_the_docs_lists_every_page() -> None:
    """Formats and decisions have maps of their own."""
    docs = ROOT / "docs"
    listed = {(docs / target).resolve() for target in _LINK.findall((docs / "README.md").read_text(encoding="utf-8"))}
    own = [page for page in PAGES if page.is_relative_to(docs) and page.parent.name not in ("formats", "decisions")]
    maps = [docs / "formats" / "README.md", docs / "decisions" / "README.md"]
    tops = [page for page in PAGES if page.parent == ROOT]
    assert {page for page in [*own, *maps, *tops] if page != docs / "README.md"} <= listed


def test_every_format_is_on_the_map_of_formats() -> None:
    folder = ROOT / "docs" / "formats"
    listed = {
        (folder / target).resolve() for target in _LINK.findall((folder / "README.md").read_text(encoding="utf-8"))
    }
    assert {page for page in folder.glob("*.md") if page.name != "README.md"} <= listed


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        ("semantics.md", False),
        ("semantics.md#conflicts", False),
        ("semantics.md#conflict", True),
        ("semantic.md", True),
    ],
)
def test_a_link_that_leads_nowhere_is_found(target: str, wrong: bool) -> None:
    assert leads_nowhere(ROOT / "docs" / "README.md", target) is wrong


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("moulin/storage/paths.py", True),
        ("storage/paths.py", True),
        ("paths.py", True),
        ("catalog/paths.py", False),
        ("path.py", False),
    ],
)
def test_a_module_is_known_by_its_path_its_room_or_its_name(path: str, there: bool) -> None:
    assert is_module(path) is there
