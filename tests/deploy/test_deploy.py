"""Container, compose, systemd and Helm name commands, options and settings that there are.

No container engine and no cluster is needed. systemd-analyze and helm look at the files where they are installed.
"""

# Decisions: docs/decisions/0673

from __future__ import annotations

import configparser
import dataclasses
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from moulin.cli.commands import COMMANDS, load
from moulin.config import Config
from moulin.meta.config import ServeConfig, require_known_environment

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "moulin"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVE = {f"MOULIN_SERVE_{field.name.upper()}" for field in dataclasses.fields(ServeConfig)}


def understands(words: list[str]) -> None:
    """Fails unless they are a command line of `moulin`."""
    assert words[0] in COMMANDS
    load(words[0]).make_context(words[0], words[1:])


def known(names: dict[str, str]) -> None:
    """Fails unless every variable MOULIN_... means something."""
    require_known_environment(names)
    assert {name for name in names if name.startswith("MOULIN_SERVE_")} <= SERVE


def ours() -> Iterator[tuple[str, Any]]:
    for name, service in COMPOSE["services"].items():
        if service["image"] == "moulin":
            yield name, service


def test_compose_runs_commands_with_settings_that_there_are() -> None:
    found = dict(ours())
    assert {"server", "collector", "nursery"} <= set(found)
    for service in found.values():
        understands(service["command"])
        known(service["environment"])
        json.loads(service["environment"]["MOULIN_STORAGE_OPTIONS"])


def test_compose_waits_for_services_and_names_volumes_that_there_are() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in COMPOSE["volumes"]
    text = (DEPLOY / "compose.yaml").read_text()
    given = {line.partition("=")[0] for line in (DEPLOY / ".env.example").read_text().splitlines()}
    assert set(re.findall(r"\$\{(\w+)", text)) <= given


def test_docker_compose_takes_the_file() -> None:
    plugins = Path("/usr/libexec/docker/cli-plugins/docker-compose")
    compose = shutil.which("docker-compose") or (str(plugins) if plugins.exists() else None)
    if compose is None:
        pytest.skip("docker compose is not installed")
    words = [compose, "--env-file", ".env.example", "-f", "compose.yaml", "config", "--quiet"]
    done = subprocess.run(words, cwd=DEPLOY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_is_built_of_what_is_in_the_repository() -> None:
    lines = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    extras = set(re.findall(r"\[([a-z,]+)\]", " ".join(lines))[0].split(","))
    assert extras <= extras_of_the_project()
    for line in lines:
        words = shlex.split(line, comments=True)
        if words and words[0] == "COPY" and not words[1].startswith("--"):
            assert all((ROOT / name).exists() for name in words[1:-1]), line
    assert json.loads(next(line for line in lines if line.startswith("ENTRYPOINT")).partition(" ")[2]) == ["moulin"]
    assert any(line.startswith("USER ") for line in lines)


def test_folders_that_compose_mounts_belong_to_the_user_of_the_image() -> None:
    """A volume over a folder that the image lacks belongs to root, and no token could be made."""
    lines = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    for _, service in ours():
        for volume in service.get("volumes", ()):
            assert re.search(rf"install -d -o moulin [^&]*{volume.split(':')[1]}\b", lines), volume


def test_a_statement_that_takes_all_memory_does_not_end_the_server() -> None:
    assert "\nOOMPolicy=continue\n" in (DEPLOY / "systemd" / "moulin-server.service").read_text()


def extras_of_the_project() -> set[str]:
    import tomllib

    return set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_that_there_is(unit: Path) -> None:
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read(unit)
    program, *words = shlex.split(parsed["Service"]["ExecStart"])
    assert Path(program).name == "moulin"
    understands(words)
    environment = (DEPLOY / "systemd" / "moulin.env").read_text().replace("# MOULIN", "MOULIN")
    known(dict(line.split("=", 1) for line in environment.splitlines() if line.startswith("MOULIN")))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_a_unit(unit: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "moulin"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    made = tmp_path / unit.name
    made.write_text(unit.read_text().replace("/opt/moulin/bin/moulin", str(program)))
    done = subprocess.run([analyze, "verify", "--man=no", made], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert complaints == []


@pytest.fixture(scope="module")
def rendered() -> list[dict[str, Any]]:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is not installed")
    linted = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout
    settings = [
        "--kube-version",
        "1.31",
        "--set",
        "settings.history_keep=3600",
        "--set",
        "lake.options.region=eu-west-1",
    ]
    made = subprocess.run([helm, "template", "lake", CHART, *settings], capture_output=True, text=True, check=True)
    return [document for document in yaml.safe_load_all(made.stdout) if document]


def test_helm_makes_processes_that_start(rendered: list[dict[str, Any]]) -> None:
    kinds = [document["kind"] for document in rendered]
    assert sorted(kinds) == ["Deployment"] * 4 + ["Job"] + ["Service"] * 2
    for document in rendered:
        if document["kind"] == "Service":
            continue
        assert document["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
        (container,) = document["spec"]["template"]["spec"]["containers"]
        understands(container["args"])
        variables = {one["name"]: one["value"] for one in container["env"]}
        known(variables)
        assert variables["MOULIN_HISTORY_KEEP"] == "3600"
        assert json.loads(variables["MOULIN_STORAGE_OPTIONS"]) == {"region": "eu-west-1"}


def test_services_of_the_chart_lead_to_ports_of_its_processes(rendered: list[dict[str, Any]]) -> None:
    ports = {}
    for document in rendered:
        if document["kind"] == "Deployment":
            (container,) = document["spec"]["template"]["spec"]["containers"]
            component = document["metadata"]["labels"]["app.kubernetes.io/component"]
            ports[component] = {port["name"] for port in container.get("ports", ())}
    for document in rendered:
        if document["kind"] == "Service":
            component = document["spec"]["selector"]["app.kubernetes.io/component"]
            assert {port["targetPort"] for port in document["spec"]["ports"]} <= ports[component]


def test_values_of_the_chart_that_templates_read_are_there() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for template in (CHART / "templates").iterdir():
        for path in re.findall(r"\.Values\.([a-zA-Z.]+)", template.read_text()):
            found: Any = values
            for name in path.split("."):
                assert name in found, f"{template.name} reads .Values.{path}"
                found = found[name]
    assert set(values["settings"]) <= {field.name for field in dataclasses.fields(Config)}


def test_chart_and_package_have_the_same_version() -> None:
    import moulin

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == moulin.__version__
