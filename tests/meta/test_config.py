"""The configuration of a server is strict, and every knob of it does something."""

from __future__ import annotations

from pathlib import Path

import pytest

from moulin.config import load_config
from moulin.errors import InvalidInput
from moulin.meta.config import ServeConfig, is_loopback, load_serve_config, require_known_environment


def test_arguments_override_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    """GEN-01"""
    assert load_serve_config(None, {}).bind == "127.0.0.1:9560"
    file = tmp_path / "moulin.toml"
    file.write_text("pin_seconds = 5\n[serve]\nbind = '127.0.0.1:1'\nthreads = 3\nauth = true\n")
    assert load_serve_config(file, {}) == ServeConfig(bind="127.0.0.1:1", threads=3, auth="on")
    environ = {"MOULIN_SERVE_THREADS": "4", "META_BIND": "127.0.0.1:2"}
    assert load_serve_config(file, environ) == ServeConfig(bind="127.0.0.1:2", threads=4, auth="on")
    environ["MOULIN_SERVE_BIND"] = "127.0.0.1:3"
    assert load_serve_config(file, environ).bind == "127.0.0.1:3"
    assert load_serve_config(file, environ, bind="127.0.0.1:4", threads=None).bind == "127.0.0.1:4"
    assert load_config(tmp_path, {}).pin_seconds == 5, "the rest of the file is the lake's"


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        ("[serve]\nbindd = 'x'", {}),
        ("[serve]\nthreads = 'many'", {}),
        ("[serve]\nthreads = 0", {}),
        ("[serve]\nthreads = 1.5", {}),
        ("[serve]\ndrain_seconds = inf", {}),
        ("[serve]\nbind = 9560", {}),
        ("[serve]\nbind = 'localhost'", {}),
        ("[serve]\nbind = 'localhost:99999'", {}),
        ("[serve]\nauth = 'maybe'", {}),
        ("[serve]\nlog_level = 'loud'", {}),
        ("serve = 1", {}),
        ("[serve", {}),
        ("", {"MOULIN_SERVE_BINDD": "x"}),
        ("", {"META_BIND": "nowhere"}),
    ],
)
def test_a_bad_setting_is_refused(tmp_path: Path, text: str, environ: dict[str, str]) -> None:
    file = tmp_path / "moulin.toml"
    file.write_text(text)
    with pytest.raises(InvalidInput):
        load_serve_config(file, environ)


def test_a_mistyped_variable_is_not_ignored() -> None:
    require_known_environment({"MOULIN_LAKE": "x", "MOULIN_PIN_SECONDS": "3", "MOULIN_SERVE_BIND": "y", "HOME": "/"})
    with pytest.raises(InvalidInput, match="MOULIN_PIN_SECOND "):
        require_known_environment({"MOULIN_PIN_SECOND": "3"})


def test_an_unknown_table_of_the_file_is_still_an_error(tmp_path: Path) -> None:
    (tmp_path / "moulin.toml").write_text("[server]\nbind = 'x'\n")
    with pytest.raises(InvalidInput, match="Unknown setting 'server'"):
        load_config(tmp_path, {})


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.8.9.1:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("example.org:1", False),
    ],
)
def test_loopback_addresses_are_told_from_others(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback
