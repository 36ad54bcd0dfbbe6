"""Every kind of store, empty."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from moulin.storage import Store, open_store
from moulin.storage.cache import CachedStore
from tests.conftest import S3_KEYS
from tests.lossy_proxy import lossy_proxy


def everything(path: str) -> bool:
    """What a cache keeps when all paths count as immutable: the suite writes its objects through the same store."""
    return True


@pytest.fixture(
    params=[
        "local",
        "memory",
        "cached",
        pytest.param("s3", marks=pytest.mark.s3),
        pytest.param("cut", marks=pytest.mark.s3),
        pytest.param("gateway", marks=pytest.mark.s3),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """The last two do the work and lose the first answer to each request that changes something."""
    if request.param in ("cut", "gateway"):
        with lossy_proxy(request.getfixturevalue("s3_server"), request.param) as proxy:
            yield open_store(request.getfixturevalue("s3_url"), {"endpoint": proxy.address, **S3_KEYS})
        return
    yield _store(request, tmp_path)


def _store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "cached":
        return CachedStore(open_store(tmp_path / "lake"), str(tmp_path / "cache"), 64 << 20, everything)
    if request.param == "local":
        return open_store(tmp_path / "lake")
    if request.param == "memory":
        return open_store(f"memory://{uuid.uuid4().hex}")
    options: dict[str, str] = request.getfixturevalue("s3_options")
    return open_store(request.getfixturevalue("s3_url"), options)
