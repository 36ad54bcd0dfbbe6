"""The wheel and the source distribution: what is in them, what they say of themselves, that they install and work."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from moulin.cli.extras import EXTRAS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution of this repository."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def test_the_wheel_has_code_types_and_the_files_of_the_console_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"moulin/py.typed", "moulin/__init__.py", "pyspark_moulin.py"} <= names
    static = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "moulin/console/static").rglob("*") if path.is_file()
    }
    assert static <= names
    assert "moulin/console/static/index.html" in static
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"moulin", "pyspark_moulin.py", f"moulin-{PROJECT['version']}.dist-info"}


def test_the_source_distribution_builds_the_same_wheel(built: Path, wheel: Path, tmp_path: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (again,) = (tmp_path / "dist").glob("*.whl")
    assert set(zipfile.ZipFile(again).namelist()) == set(zipfile.ZipFile(wheel).namelist())


def test_metadata_are_valid_and_name_no_address(wheel: Path) -> None:
    (name,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("dist-info/METADATA")]
    found = Metadata.from_email(zipfile.ZipFile(wheel).read(name), validate=True)
    assert found.license_expression == "Apache-2.0"
    assert found.project_urls is None
    assert found.home_page is None
    assert found.description_content_type == "text/markdown"
    assert found.description
    assert set(found.provides_extra or ()) >= {"spark", "serve", "postgres", "duckdb", "java", "all"}


def test_all_is_every_extra() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    assert Requirement(everything).extras == set(extras) - {"all"}


def test_extras_that_commands_ask_for_exist() -> None:
    assert set(EXTRAS) <= set(PROJECT["optional-dependencies"])


def interpreters() -> Iterator[object]:
    for version in VERSIONS:
        yield pytest.param(version, marks=[] if version == RUNNING else pytest.mark.long)


def interpreter(version: str) -> str | None:
    """A Python of this version: the running one, one of the path, or one of pyenv or uv."""
    if version == RUNNING:
        return sys.executable
    homes = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    homes.append(Path.home() / ".local" / "share" / "uv" / "python")
    found = [path for home in homes for path in home.glob(f"*{version}*/bin/python{version}")]
    return shutil.which(f"python{version}") or (str(max(found)) if found else None)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", [*interpreters()])
def test_the_wheel_installs_and_works(version: str, wheel: Path, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    programs = install(python, wheel, tmp_path / "venv", "duckdb,serve")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MOULIN", "PYTHON"))}
    environment["MOULIN_LAKE"] = str(tmp_path / "lake")

    def moulin(*words: str) -> str:
        command = [str(programs / "moulin"), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert moulin("--version") == f"moulin {PROJECT['version']}\n"
    moulin("init")
    moulin("db", "create", "shop")
    moulin("table", "create", "shop.orders", "id:long!", "region:string", "--primary-key", "id")
    (tmp_path / "orders.csv").write_text("id,region\n1,eu\n2,us\n")
    moulin("append", "shop.orders", "orders.csv")
    counted = moulin("sql", "--engine", "duckdb", "--format", "csv", "select count(*) as n from shop.orders")
    assert counted == "n\n2\n"
    moulin("--lake", "telemetry", "init", "--otel")
    for words in (("nursery", "--once", "--no-spark"), ("worker", "--once", "--no-spark"), ("janitor", "--once")):
        moulin("--lake", "telemetry", *words)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [str(programs / "moulin"), "serve", "--bind", "127.0.0.1:0", "--http-bind", f"127.0.0.1:{port}"]
    with subprocess.Popen(words, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL) as server:
        try:
            assert b"<html" in page(f"http://127.0.0.1:{port}/")
        finally:
            server.terminate()


def install(python: str, wheel: Path, folder: Path, extras: str) -> Path:
    """A clean environment with the wheel; skips, with what pip says, where packages cannot be fetched."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inside = str(folder / "bin" / "python")
    what = f"moulin[{extras}] @ {wheel.as_uri()}"
    uv = Path(sys.executable).with_name("uv")
    commands = [[str(uv), "pip", "install", "-q", "-p", inside, what]] if uv.exists() else []
    commands.append([inside, "-m", "pip", "install", "-q", what])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return folder / "bin"
    pytest.skip(f"packages cannot be installed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1][:200]}")


def page(url: str) -> bytes:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urlopen(url) as answer:
                found: bytes = answer.read()
                return found
        except OSError:
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.1)
