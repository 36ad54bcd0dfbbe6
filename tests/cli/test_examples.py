"""Every `--help` ends with examples; they run, and what they print with --json has the schema that is stored for it."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer

from moulin.cli.commands import COMMANDS, load
from moulin.cli.help import examples_in
from moulin.cli.main import app, main
from tests.cli.example_lake import lose_catalog, lose_object, make_example_lake

SCHEMAS: dict[str, Any] = json.loads(Path(__file__).with_name("documents.json").read_text())

NOT_RUN = {
    "backfill": "needs Spark; tests/pipeline/write loads folders",
    "collect": "runs until it is stopped",
    "demo": "takes a minute; tests/cli/demo runs it",
    "mcp": "runs until its client leaves; tests/cli/agents",
    "nursery": "runs until it is stopped",
    "serve": "runs until it is stopped",
    "sql-server": "runs until it is stopped",
    "up": "runs until it is stopped",
    "worker": "runs until it is stopped",
}


BEFORE = {"ingest skip": lose_object, "recover": lose_catalog}
EVENTS = {"collect", "mirror", "nursery", "up", "worker"}
"""Commands that print a document per line."""


def tree() -> Iterator[tuple[str, Any]]:
    """Every command and group below `moulin`, by its path."""
    for name in COMMANDS:
        command = load(name)
        yield name, command
        for inner, one in getattr(command, "commands", {}).items():
            yield f"{name} {inner}", one


TREE = dict(tree())
LEAVES = {path: command for path, command in TREE.items() if not hasattr(command, "commands")}


def has_json(command: Any) -> bool:
    return any("--json" in option.opts for option in command.params)


def test_every_help_has_examples_of_its_command() -> None:
    root: Any = typer.main.get_command(app)
    assert examples_in(root.epilog)
    for path, command in TREE.items():
        lines = examples_in(command.epilog)
        assert lines, f"moulin {path} --help has no example"
        wanted = "compact" if path == "merge" else path
        for line in lines:
            assert f"moulin {wanted}" in line or line.endswith(f" {wanted}") or f" {wanted} " in line, (path, line)


@pytest.mark.parametrize("path", LEAVES)
def test_every_example_is_a_command_line_that_is_understood(path: str) -> None:
    for line in examples_in(LEAVES[path].epilog):
        bare = line.removeprefix('eval "$(').removesuffix(')"') if line.startswith("eval") else line
        words = shlex.split(bare.partition(" < ")[0])
        own = len(words[: words.index(path.split()[-1] if path != "merge" else "compact") + 1])
        LEAVES[path].make_context(path, words[own:])


def runnable() -> Iterator[Any]:
    for path, command in LEAVES.items():
        for line in examples_in(command.epilog):
            forever = path in ("nursery", "worker") and "--once" in line
            if not command.hidden and line.startswith("moulin") and (path not in NOT_RUN or forever):
                yield pytest.param(path, line, id=line.removeprefix("moulin "))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("examples") / "template"
    folder.mkdir()
    return folder, make_example_lake(folder)


@pytest.mark.parametrize(("path", "line"), [*runnable()])
def test_an_example_runs(
    path: str,
    line: str,
    template: tuple[Path, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, variables = template
    for name, value in variables.items():
        line = line.replace(f"${name}", value)
    line, _, stdin = line.partition(" < ")
    for form in [[], ["--json"]] if has_json(LEAVES[path]) and "--format" not in line else [[]]:
        folder = tmp_path / f"run{len(form)}"
        shutil.copytree(source, folder)
        BEFORE.get(path, lambda _: None)(folder)
        code, out, err = run([*shlex.split(line)[1:], *form], folder, stdin, monkeypatch, capsys)
        assert code == 0, err
        if form:
            for document in documents(path, out):
                jsonschema.validate(document, SCHEMAS[path], cls=jsonschema.Draft202012Validator)


def documents(path: str, out: str) -> list[Any]:
    return [json.loads(line) for line in out.splitlines()] if path in EVENTS else [json.loads(out)]


def run(
    words: list[str], folder: Path, stdin: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MOULIN_LAKE", "./lake")
    monkeypatch.setattr(sys, "argv", ["moulin", *words])
    data = (folder / stdin).read_bytes() if stdin else b""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    capsys.readouterr()
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_every_command_with_json_has_a_schema() -> None:
    wanted = {path for path, command in LEAVES.items() if has_json(command) and not command.hidden}
    assert wanted == set(SCHEMAS) - {"$comment"}


def test_commands_without_json_are_those_that_print_for_people_alone() -> None:
    without = {path for path, command in LEAVES.items() if not has_json(command) and not command.hidden}
    assert without == {"completion", "demo", "mcp", "serve", "shell", "sql-server"}


def test_keys_are_snake_case_and_every_document_has_its_version() -> None:
    for path in set(SCHEMAS) - {"$comment"}:
        jsonschema.Draft202012Validator.check_schema(SCHEMAS[path])
        for document in SCHEMAS[path].get("oneOf", [SCHEMAS[path]]):
            assert document["properties"]["json_version"] == {"const": 1}, path
            assert "json_version" in document["required"]
        for name in names_in(SCHEMAS[path]):
            assert re.fullmatch(r"[a-z][a-z0-9_]*", name), (path, name)


def names_in(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        parts = [*schema.get("properties", {}).values(), *schema.get("oneOf", ())]
        for one in (*parts, schema.get("items"), schema.get("additionalProperties")):
            yield from names_in(one)
