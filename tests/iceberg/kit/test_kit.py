"""Apache Iceberg's compatibility kit for REST catalogs, unmodified, against a throw-away lake."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.iceberg.kit import kit
from tests.iceberg.kit.exceptions import EXCEPTIONS

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("suite", kit.SUITES)
def test_the_kit_passes_but_for_the_exceptions(suite: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    found = _run(suite, tmp_path)
    assert len(found) > 40, "the kit ran a part of its cases"
    for case in found:
        with subtests.test(case.name):
            if case.skipped:
                pytest.skip(case.skipped)
            if reason := EXCEPTIONS[suite].get(case.name):
                assert case.failure, f"It passes: take it out of the exceptions ({reason})"
                pytest.xfail(reason)
            assert not case.failure, case.failure


@pytest.mark.parametrize("name", kit.NESTED_CASES)
def test_nested_namespaces_pass_the_cases_that_the_kit_has_no_flag_for(name: str, tmp_path: Path) -> None:
    (case,) = _run(kit.NESTED, tmp_path, name)
    assert (case.skipped, case.failure) == ("", "")


def _run(suite: str, folder: Path, *cases: str) -> list[kit.Case]:
    try:
        kit.fetched()
        with kit.throw_away(folder) as address:
            found = kit.run(address, suite, folder, cases)
    except kit.Unreachable as error:
        pytest.skip(f"the compatibility kit cannot be had: {error}")
    sys.stdout.write("".join(f"{name}={value}\n" for name, value in kit.FLAGS.items()))
    return found
