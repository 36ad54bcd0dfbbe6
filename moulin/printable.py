"""Makes untrusted text harmless for terminals and logs: values, names, comments, properties, foreign messages.

A terminal executes control characters: they move the cursor, colour, set titles and type for the user. Bidirectional
overrides show text in another order. All of them are replaced by escapes; nothing else changes.
"""

# Decisions: docs/decisions/0242

from __future__ import annotations

import re
from typing import Final

# C0, DEL and C1; marks, embeddings, overrides and isolates of direction; line and paragraph separators, the byte order
# mark; half a surrogate pair, which no encoding can write.
_HIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def printable(text: str, *, keep: str = "") -> str:
    r"""`text` with control characters as escapes, such as `\x1b` or `\u202e`, except those in `keep`."""
    return _HIDDEN.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def printable_json(document: str) -> str:
    r"""The same for a JSON document: its strings keep their meaning, and line ends between values stay."""
    return _HIDDEN.sub(lambda found: "\n" if found[0] == "\n" else f"\\u{ord(found[0]):04x}", document)
