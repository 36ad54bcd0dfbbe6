"""The files of the console: what is vendored is what was taken, pages stay small, and nothing is asked of others."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

from moulin.console.assets import FOLDER, load

ROOT = Path(__file__).parents[2]
VENDOR = FOLDER / "vendor"
IMPORTS = re.compile(r"""(?:from|import\()\s*"(\.[^"]+)\"""")
FIRST_LOAD, WHOLE = 60_000, 300_000


def test_vendored_files_are_as_they_were_recorded() -> None:
    recorded = dict(reversed(line.split()) for line in (VENDOR / "SHA256SUMS").read_text().splitlines())
    assert set(recorded) == {path.name for path in VENDOR.glob("*.js")}
    for name, digest in recorded.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
    text = (VENDOR / "LICENSE").read_text()
    bundled = [path.read_text() for path in VENDOR.glob("*.entry.mjs")]
    for library in {name for entry in bundled for name in re.findall(r'from "((?:@[\w-]+/)?[\w-]+)', entry)}:
        assert f"\n{library} " in text, library


def imports_of(name: str, seen: set[str]) -> set[str]:
    """A module and those that it imports, not those that it loads later."""
    if name not in seen:
        seen.add(name)
        text = load()[name].body.decode()
        for target in re.findall(r'from\s*"(\.[^"]+)"', text):
            imports_of(str((FOLDER / name).parent.joinpath(target).resolve().relative_to(FOLDER)), seen)
    return seen


def test_pages_stay_within_their_budgets() -> None:
    first = {"index.html", "console.css", "moulin.svg", *imports_of("main.js", set())}
    first |= imports_of("screens/lake.js", set())
    assert sum(len(load()[name].packed) for name in first) <= FIRST_LOAD
    assert sum(len(asset.packed) for asset in load().values()) <= WHOLE


def test_every_import_is_there_and_nothing_is_asked_of_other_hosts() -> None:
    for name, asset in load().items():
        text = asset.body.decode()
        for target in IMPORTS.findall(text):
            path = (FOLDER / name).parent.joinpath(target).resolve()
            assert path.is_file(), (name, target)
        foreign = [one for one in re.findall(r"https?://[a-z][^\s\"'`<>)]*", text) if "www.w3.org" not in one]
        assert foreign == [], name
        if not name.startswith("vendor/"):
            assert "innerHTML" not in text, name
            assert "dangerouslySetInnerHTML" not in text, name


def test_every_file_is_part_of_the_package() -> None:
    """The wheel has what is below moulin/ and git does not ignore."""
    names = [str(path) for path in FOLDER.rglob("*") if path.is_file()]
    ignored = subprocess.run(
        ["git", "check-ignore", *names], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    assert ignored == ""
