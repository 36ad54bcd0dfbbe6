"""Which release of Moulin this is. Manifests name what wrote them."""

from __future__ import annotations

VERSION = "0.1.0"
