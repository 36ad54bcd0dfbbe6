"""Table properties for bloom filters of columns, with Iceberg's names."""

# Decisions: docs/decisions/0371

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from moulin.errors import InvalidInput

_ENABLED = "write.parquet.bloom-filter-enabled.column."
_FPP = "write.parquet.bloom-filter-fpp.column."
_NDV = "write.parquet.bloom-filter-ndv.column."
_MOST_BYTES = "write.parquet.bloom-filter-max-bytes"

_DEFAULT_FPP = 0.01
_DEFAULT_BYTES = 1 << 20
_LEAST, _MOST = 32, 1 << 27  # bytes of one filter; a writer holds those of a file in memory

BLOOM_PROPERTIES = (_ENABLED, _FPP, _NDV, _MOST_BYTES)
"""The properties; those with a dot at the end are followed by the name of a column."""


@dataclass(frozen=True, slots=True)
class BloomSetting:
    """A filter of each row group of a column: how often it may be wrong, for how many distinct values (None: as many as
    there are), and how many bytes it may take."""

    column: str
    fpp: float
    ndv: int | None
    most_bytes: int


def bloom_settings(properties: Mapping[str, str]) -> tuple[BloomSetting, ...]:
    """The filters that a table asks for. A value that is refused today, but was stored before, counts as not given."""
    found = []
    for name, text in properties.items():
        if name.startswith(_ENABLED) and text.lower() == "true":
            column = name.removeprefix(_ENABLED)
            fpp = _known(properties, _FPP + column)
            ndv = _known(properties, _NDV + column)
            most = _known(properties, _MOST_BYTES)
            found.append(
                BloomSetting(
                    column,
                    _DEFAULT_FPP if fpp is None else float(fpp),
                    None if ndv is None else int(ndv),
                    _DEFAULT_BYTES if most is None else int(most),
                )
            )
    return tuple(found)


def check_bloom_property(name: str, text: str) -> bool:
    """Whether this is a property of bloom filters; InvalidInput when it takes no such value."""
    if not name.startswith(BLOOM_PROPERTIES):
        return False
    try:
        if name.startswith(_ENABLED):
            fits, wanted = text.lower() in ("true", "false"), "true or false"
        elif name.startswith(_FPP):
            fits, wanted = 0 < float(text) < 1, "a number between 0 and 1"
        elif name.startswith(_NDV):
            fits, wanted = int(text) > 0, "a whole number above 0"
        else:
            fits, wanted = _LEAST <= int(text) <= _MOST, f"a whole number from {_LEAST} to {_MOST}"
    except ValueError:
        fits, wanted = False, "a number"
    if not fits:
        raise InvalidInput(f"Property {name!r} takes {wanted}, not {text!r}.")
    return True


def _known(properties: Mapping[str, str], name: str) -> str | None:
    text = properties.get(name)
    try:
        return text if text is not None and check_bloom_property(name, text) else None
    except InvalidInput:
        return None


__all__ = ["BLOOM_PROPERTIES", "BloomSetting", "bloom_settings", "check_bloom_property"]
