"""The release of Moulin. Manifests contain the release that wrote them."""

from __future__ import annotations

VERSION = "0.1.0"
