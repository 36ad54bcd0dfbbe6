"""pyiceberg's own tests of catalogs: `python -m tests.iceberg.pyiceberg_suite.suite [WORDS...]`.

They run unmodified. The source distribution on PyPI has them; it is fetched when they run, in the version that is
installed here, and they run in an environment of their own against a server that takes nothing from them but requests.
"""

# Decisions: docs/decisions/0640

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import xml.etree.ElementTree as Xml
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import moulin
from moulin.errors import Unavailable
from moulin.iceberg.rest.app import build
from moulin.lake import Lake
from moulin.meta.config import ServeConfig
from moulin.meta.server.http import HttpServer
from tests.iceberg.rest.served import served

VERSION = version("pyiceberg")
REQUIREMENTS = (f"pyiceberg[hive,pyarrow,sql-sqlite]=={VERSION}", "pytest", "pytest-lazy-fixtures", "moto[server]")
"""What the tests import, whichever catalog they are run against."""
_TESTS = "tests/integration/test_catalog.py"
_FIXED = "127.0.0.1:8181"
"""Where tests that take no address look for a catalog."""
_CHOSEN = "rest_test_catalog or test_rest_"
_OUTCOMES = ("failure", "error", "skipped")


class Unreachable(Exception):
    """The tests cannot be had; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Case:
    """What became of one test: `failure` is empty unless it failed, `skipped` unless it was left out."""

    name: str
    failure: str
    skipped: str


def fetched(folder: Path) -> Path:
    """The folder with the tests, made in `folder`; Unreachable where they cannot be had."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "pyiceberg"]
    command = [*pip, "-d", str(folder), f"pyiceberg=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    archive = folder / f"pyiceberg-{VERSION}.tar.gz"
    if done.returncode or not archive.exists():
        raise Unreachable(f"there is no source of pyiceberg {VERSION}: {done.stderr.strip()[-200:]}")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    root = folder / archive.name.removesuffix(".tar.gz")
    if not (root / _TESTS).exists():
        raise Unreachable(f"the source of pyiceberg {VERSION} has no {_TESTS}")
    shutil.rmtree(root / "pyiceberg")  # the installed one is tested
    return root


@contextmanager
def throw_away(folder: Path) -> Iterator[str]:
    """The address of the REST catalog of a new lake in `folder`, which is also where some tests look for one.

    Unreachable when somebody else is there.
    """
    with moulin.connect(folder / "lake") as lake, served(lake) as address, _at_the_fixed_address(lake):
        yield address


@contextmanager
def _at_the_fixed_address(lake: Lake) -> Iterator[None]:
    app = build(lake)
    app.state.stopping = threading.Event()
    try:
        server = HttpServer(app, ServeConfig(http_bind=_FIXED, drain_seconds=1)).start()
    except Unavailable as error:
        raise Unreachable(f"some tests want a catalog at {_FIXED} ({error.message})") from None
    try:
        yield
    finally:
        server.stop()


def run(python: Path, root: Path, address: str, words: Sequence[str] = ()) -> list[Case]:
    """Run the tests in `root`, or those that `words` name, with an environment's `python`."""
    report = root / "report.xml"
    outside = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "PYICEBERG"))}
    told = {"TEST_CATALOG": "lake", "CATALOG__LAKE__TYPE": "rest", "CATALOG__LAKE__URI": address}
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    done = subprocess.run(
        [*command, "-k", " and ".join([f"({_CHOSEN})", *words]), _TESTS],
        cwd=root,
        env={**outside, **{f"PYICEBERG_{key}": value for key, value in told.items()}},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    if not report.exists():
        raise AssertionError(f"the tests did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return [_case(one) for one in Xml.parse(report).getroot().iter("testcase")]


def _case(found: Xml.Element) -> Case:
    texts = {kind: [one.get("message", "") for one in found if one.tag == kind] for kind in _OUTCOMES}
    failure = "\n".join(texts["failure"] + texts["error"])
    return Case(found.attrib["name"].removesuffix("[rest_test_catalog]"), failure, "".join(texts["skipped"]))


def main(words: Sequence[str]) -> None:
    """Run the tests and print what became of each."""
    with tempfile.TemporaryDirectory() as scratch:
        root, folder = fetched(Path(scratch)), Path(scratch) / "environment"
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "-q", *REQUIREMENTS], check=True)
        with throw_away(Path(scratch)) as address:
            found = run(folder / "bin" / "python", root, address, words)
    for case in sorted(found, key=lambda one: one.name):
        state = "FAILED" if case.failure else "skipped" if case.skipped else "passed"
        sys.stdout.write(f"{state} {case.name} {(case.failure or case.skipped).splitlines()[:1]}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
