"""pyiceberg's own tests of catalogs, unmodified, against a throw-away lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.iceberg.pyiceberg_suite import suite
from tests.iceberg.pyiceberg_suite.exceptions import EXCEPTIONS
from tests.interop.environment import python_with

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def test_pyicebergs_tests_of_catalogs_pass_but_for_the_exceptions(tmp_path: Path, subtests: pytest.Subtests) -> None:
    *others, last = suite.REQUIREMENTS
    python = python_with(last, tmp_path / "environment", *others)
    try:
        root = suite.fetched(tmp_path)
        with suite.throw_away(tmp_path) as address:
            found = suite.run(python, root, address)
    except suite.Unreachable as error:
        pytest.skip(str(error))
    assert len(found) > 40, "a part of the tests ran"
    assert set(EXCEPTIONS) <= {case.name for case in found}
    for case in found:
        with subtests.test(case.name):
            if case.skipped:
                pytest.skip(case.skipped)
            if reason := EXCEPTIONS.get(case.name):
                assert case.failure, f"It passes: take it out of the exceptions ({reason})"
                pytest.xfail(reason)
            assert not case.failure, case.failure
