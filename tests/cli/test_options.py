"""Lakes whose files lie elsewhere: `--lake CATALOG --storage PLACE` before every command."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done, Run

MIRROR_PAGE = Path(__file__).parents[2] / "docs/operations/mirror.md"


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], list[str]]:
    """The options that name a storage of this kind."""
    if request.param == "folder":
        return lambda name: ["--storage", str(tmp_path / "elsewhere" / name)]
    options: dict[str, str] = request.getfixturevalue("s3_options")
    words = [word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")]
    url: str = request.getfixturevalue("s3_url")
    return lambda name: ["--storage", f"{url}/{name}", *words]


def _succeed(done: Done) -> Done:
    assert done.code == 0, done.err
    return done


def _fill(run: Run, where: list[str], tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,name\n1,Ada\n2,Bob\n")
    for words in (
        ["init"],
        ["db", "create", "shop"],
        ["table", "create", "shop.people", "id:long", "name:string"],
        ["append", "shop.people", str(rows)],
    ):
        _succeed(run(*where, *words))


def test_every_command_finds_a_lake_whose_files_lie_elsewhere(
    run: Run, tmp_path: Path, place: Callable[[str], list[str]]
) -> None:
    _fill(run, place("lake"), tmp_path)
    for words in (
        ["table", "list", "shop"],
        ["table", "show", "shop.people"],
        ["table", "history", "shop.people"],
        ["changes", "shop.people", "--since", "2"],
        ["compact", "shop.people"],
        ["check"],
        ["gc"],
        ["token", "list", "shop"],
        ["worker", "--once"],
        ["janitor", "--once"],
        ["init"],
    ):
        _succeed(run(*place("lake"), *words))
    assert len(_succeed(run(*place("lake"), "scan", "shop.people", "--json")).json()) == 2
    assert [path.name for path in (tmp_path / "lake").iterdir() if path.suffix == ".json"] == []


def test_the_disaster_command_of_the_docs_brings_a_mirror_back(
    run: Run, tmp_path: Path, place: Callable[[str], list[str]]
) -> None:
    """As docs/operations/mirror.md writes it: then the lake is used, by the same two addresses."""
    command = re.search(r"`moulin --lake \./new --storage s3://bucket/copy (\w+)`", MIRROR_PAGE.read_text())
    assert command is not None
    _fill(run, place("lake"), tmp_path)
    target, options = place("copy")[1], place("copy")[2:]
    passed = [word.replace("--storage-option", "--target-option") for word in options]
    _succeed(run(*place("lake"), "mirror", target, *passed, "--once"))

    new = tmp_path / "new"
    _succeed(run(*place("copy"), command[1], lake=new))
    assert len(_succeed(run(*place("copy"), "scan", "shop.people", "--json", lake=new)).json()) == 2
    _succeed(run(*place("copy"), "append", "shop.people", str(tmp_path / "rows.csv"), lake=new))
    assert len(_succeed(run(*place("copy"), "scan", "shop.people", "--json", lake=new)).json()) == 4


def test_a_catalog_that_was_lost_is_named_as_lost(run: Run, tmp_path: Path, place: Callable[[str], list[str]]) -> None:
    """Not as a lake that never was, whose remedy would be `init`."""
    _fill(run, place("lake"), tmp_path)
    done = run(*place("lake"), "table", "list", "shop", lake=tmp_path / "other")
    assert done.code == 1
    assert "moulin recover" in done.err


def test_a_mistyped_catalog_makes_no_lake(run: Run, tmp_path: Path) -> None:
    elsewhere, typo = tmp_path / "nowhere", tmp_path / "typo"
    done = run("--storage", str(elsewhere), "table", "list", "shop", lake=typo)
    assert done.code == 1
    assert f"moulin --lake {typo} --storage {elsewhere} init" in done.err
    assert not typo.exists()
    assert not elsewhere.exists()


def test_a_mistyped_file_uri_makes_no_lake(run: Run, tmp_path: Path) -> None:
    typo = tmp_path / "typo"
    done = run("table", "list", "shop", lake=f"file://{typo}")  # type: ignore[arg-type]
    assert done.code == 1
    assert "contains no lake" in done.err
    assert not typo.exists()
