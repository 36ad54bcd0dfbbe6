"""Apache Iceberg's compatibility kit for REST catalogs: `python -m tests.iceberg.kit.kit [SUITE [CASE...]]`.

It runs unmodified. Maven Central has it as test artifacts. They are fetched once and kept, and JUnit runs them in a
JVM of its own against a server that takes nothing from the kit but its requests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as Xml
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import moulin
from tests.iceberg.rest.served import served

PACKAGE = "org.apache.iceberg.rest"
SUITES = {"tables": "RESTCompatibilityKitCatalogTests", "views": "RESTCompatibilityKitViewCatalogTests"}
NESTED = "nested"
"""Cases that the kit leaves out of `tables` without a flag: `NestedNamespaces.java` switches them on.

Each needs a lake of its own: they leave the same namespaces behind.
"""
NESTED_CASES = ("testListNestedNamespaces", "testDropNamespaceWithNestedNamespace")
FLAGS = {
    "rck.local": "false",
    "rck.requires-namespace-create": "true",
    "rck.supports-serverside-retry": "true",
    "rck.overrides-requested-location": "false",
    "rck.supports-names-with-dot": "true",
    "rck.supports-variant": "false",
}
"""The kit's own flags, as its README lists them. Nothing else is told to it but the address."""
_POM = Path(__file__).with_name("pom.xml")


class Unreachable(Exception):
    """The kit cannot be had; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Case:
    """What became of one test case: `failure` is empty unless it failed, `skipped` unless the kit left it out."""

    name: str
    failure: str
    skipped: str


def fetched() -> Path:
    """The folder with the kit and what it needs; Unreachable where there is no Maven, no Java or no network."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        raise Unreachable("there is no Maven or no Java on this machine")
    stamp = f"{_POM.stat().st_size}-{os.getuid()}"
    folder = Path(tempfile.gettempdir()) / f"moulin-iceberg-kit-{stamp}"
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory(prefix="moulin-iceberg-kit-") as scratch:
        jars = Path(scratch) / "jars"
        command = ["mvn", "-q", "-B", "-f", str(_POM), f"-Dmaven.repo.local={scratch}/repository"]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        except subprocess.TimeoutExpired:
            raise Unreachable("Maven Central did not answer in time") from None
        if done.returncode:
            raise Unreachable(f"Maven has no kit: {(done.stdout + done.stderr).strip()[:300]}")
        if not folder.exists():
            shutil.move(jars, folder)
    return folder


@contextmanager
def throw_away(folder: Path) -> Iterator[str]:
    """The address of the REST catalog of a new lake in `folder`, set up as docs/operations/iceberg_rest.md says."""
    with moulin.connect(folder / "lake", iceberg_verify="manifest") as lake:
        for name in ("path/to", "tmp/ns", "tmp/newdb"):  # where its files lie, or would: some are never written
            lake.catalog.add_base(name.replace("/", "-"), f"file:///{name}")
        with served(lake) as address:
            yield address


def run(address: str, suite: str, folder: Path, cases: Sequence[str] = ()) -> list[Case]:
    """Run a suite of the kit, or some methods of it, against the catalog at `address`; reports go below `folder`."""
    jars = fetched()
    flags = {**FLAGS, "rck.uri": address}
    told = {name.removeprefix(prefix): value for name, value in flags.items() for prefix in ("", "rck.")}
    paths = [f"{jars}/*"]
    if suite == NESTED:
        name = "NestedNamespaces"
        paths.append(str(_compiled(jars, folder)))
    else:
        name = f"{PACKAGE}.{SUITES[suite]}"
    chosen = [f"--select-method={name}#{case}" for case in cases] or [f"--select-class={name}"]
    command = [
        "java",
        "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        *(f"-D{key}={value}" for key, value in told.items()),
        "-cp",
        os.pathsep.join(paths),
        "org.junit.platform.console.ConsoleLauncher",
        "execute",
        "--disable-banner",
        "--details=none",
        f"--config=rck.local={flags['rck.local']}",
        f"--reports-dir={folder / suite}",
        *chosen,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False, cwd=folder)
    report = folder / suite / "TEST-junit-jupiter.xml"
    if not report.exists():
        raise AssertionError(f"the kit did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return [_case(one) for one in Xml.parse(report).getroot().iter("testcase")]


def _compiled(jars: Path, folder: Path) -> Path:
    """The folder of the class that switches cases on."""
    if shutil.which("javac") is None:
        raise Unreachable("there is no Java compiler on this machine")
    made = folder / "classes"
    source = Path(__file__).with_name("NestedNamespaces.java")
    subprocess.run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(made), str(source)], check=True, timeout=300)
    return made


def _case(found: Xml.Element) -> Case:
    texts = {kind: [one for one in found if one.tag == kind] for kind in ("failure", "error", "skipped")}
    failure = "".join(f"{one.get('message', '')}\n{one.text or ''}" for one in texts["failure"] + texts["error"])
    skipped = "".join(one.text or one.get("message", "") or "skipped" for one in texts["skipped"])
    return Case(found.attrib["name"].replace("()", ""), failure, skipped)


def main(words: Sequence[str]) -> None:
    """Run the kit and print what became of each case."""
    suite = words[0] if words else "tables"
    cases = words[1:] or (NESTED_CASES if suite == NESTED else ())
    found: list[Case] = []
    for some in [(one,) for one in cases] if suite == NESTED else [tuple(cases)]:
        with tempfile.TemporaryDirectory() as scratch, throw_away(Path(scratch)) as address:
            found += run(address, suite, Path(scratch), some)
    lines = int(os.environ.get("LINES", "6"))
    sys.stdout.write("".join(f"{name}={value}\n" for name, value in FLAGS.items()))
    for case in sorted(found, key=lambda one: one.name):
        state = "FAILED" if case.failure else "skipped" if case.skipped else "passed"
        shown = "\n    ".join(case.failure.strip().splitlines()[:lines])
        sys.stdout.write(f"{state} {case.name}\n" + (f"    {shown}\n" if shown else ""))
    failed, skipped = sum(bool(one.failure) for one in found), sum(bool(one.skipped) for one in found)
    sys.stdout.write(f"{len(found) - failed - skipped} passed, {failed} failed, {skipped} skipped\n")


if __name__ == "__main__":
    main(sys.argv[1:])
