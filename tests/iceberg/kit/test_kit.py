"""Apache Iceberg's compatibility kit for REST catalogs, unmodified, against a throw-away lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.iceberg.kit import kit
from tests.iceberg.kit.exceptions import EXCEPTIONS

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("suite", kit.SUITES)
def test_the_kit_passes_but_for_the_exceptions(suite: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    try:
        kit.fetched()
    except kit.Unreachable as error:
        pytest.skip(f"the compatibility kit cannot be had: {error}")
    with kit.throw_away(tmp_path) as address:
        found = kit.run(address, suite, tmp_path)
    assert len(found) > 40, "the kit ran a part of its cases"
    for case in found:
        with subtests.test(case.name):
            if case.skipped:
                pytest.skip(case.skipped)
            if reason := EXCEPTIONS[suite].get(case.name):
                assert case.failure, f"It passes: take it out of the exceptions ({reason})"
                pytest.xfail(reason)
            assert not case.failure, case.failure
