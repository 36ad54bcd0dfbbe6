"""The configuration of a server is strict, and every knob of it does something."""

from __future__ import annotations

from pathlib import Path

import pytest

from moulin.config import file_settings, load_config
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
    with pytest.raises(InvalidInput, match="MOULIN_PIN_SECOND:"):
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


SERVICE_LINKS = {
    "SERVICE_HOST": "10.96.0.12",
    "SERVICE_PORT": "8181",
    "SERVICE_PORT_GRPC": "9560",
    "PORT": "tcp://10.96.0.12:8181",
    "PORT_8181_TCP": "tcp://10.96.0.12:8181",
    "PORT_8181_TCP_PROTO": "tcp",
    "PORT_8181_TCP_PORT": "8181",
    "PORT_8181_TCP_ADDR": "10.96.0.12",
    "PORT_53_UDP": "udp://[fd00::1]:53",
    "PORT_53_UDP_ADDR": "fd00::1",
}


@pytest.mark.parametrize("service", ["MOULIN", "MOULIN_SERVE", "MOULIN_LAKE", "MOULIN_META_SERVICE"])
def test_variables_that_kubernetes_makes_for_a_service_are_left_alone(service: str) -> None:
    environ = {f"{service}_{name}": value for name, value in SERVICE_LINKS.items()}
    require_known_environment(environ)
    assert load_serve_config(None, {**environ, "MOULIN_SERVE_THREADS": "3"}) == ServeConfig(threads=3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MOULIN_PORT", "8181"),
        ("MOULIN_PORT", "http://10.0.0.1:8181"),
        ("MOULIN_SERVICE_HOST", "lake.example.org"),
        ("MOULIN_PORT_8181", "tcp://10.0.0.1:8181"),
        ("MOULIN_SERVICE_PORTS", "8181"),
        ("MOULIN_SERVE_PORT", "8181"),
        ("MOULIN_SERVE_HOST", "10.0.0.1"),
    ],
)
def test_what_only_looks_like_a_variable_of_kubernetes_is_still_an_error(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name}|{name.removeprefix('MOULIN_SERVE_').lower()}"):
        require_known_environment({name: value})
        load_serve_config(None, {name: value})


def test_a_named_file_gives_settings_of_the_lake_under_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "some.toml"
    file.write_text("pin_seconds = 7\nhistory_keep = 9\nlog_sync = 'never'\n[serve]\nthreads = 3\n")
    assert file_settings(file, {"MOULIN_HISTORY_KEEP": "1"}) == {"pin_seconds": 7.0, "log_sync": "never"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[storage]\nregion = 'x'", r"Unknown table \[storage\] in .*some.toml"),
        ("[server]\nbind = 'x'", r"Unknown table \[server\]"),
        ("pin_second = 1", "Unknown setting 'pin_second' in .*some.toml"),
        ("lake = './x'", "Unknown setting 'lake'"),
        ("pin_seconds = 'soon'", "'pin_seconds' must be a number"),
        ("[[lake]]\na = 1", "Unknown setting 'lake'"),
    ],
)
def test_what_means_nothing_in_a_named_file_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "some.toml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=said):
        file_settings(file, {})
