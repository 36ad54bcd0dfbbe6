"""Plans as Spark's EXPLAIN writes them, as steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from moulin.model.query_plan import QueryPlan, Share, Step

_HEAD: Final = re.compile(r"== (.+) ==")
_MARK: Final = re.compile(r"^[ :]*?(?:[+:]- )")
_NUMBERED: Final = re.compile(r"#\d+L?|, \[plan_id=\d+\]|\[plan_id=\d+\]")
_STAGE: Final = re.compile(r"^\*\(\d+\) ")
_NAME: Final = re.compile(r"\w+(?: (?:parquet|ExistingRDD))?")
_PARTS: Final = re.compile(r",? ?\b(Batched|DataFilters|Format|Location|PartitionFilters|PushedFilters|ReadSchema): ")
_KEPT: Final = {"DataFilters": "Filters", "PartitionFilters": "Partitions", "ReadSchema": "Columns"}
_SHARE: Final = re.compile(r"(.+): reads ([\d,]+) of ([\d,]+) segments")


def plan_steps(text: str) -> QueryPlan:
    """The steps of a physical plan, and the shares that Moulin adds to it."""
    lines: list[str] = []
    shares: list[Share] = []
    section = ""
    for line in text.splitlines():
        if (head := _HEAD.fullmatch(line.strip())) is not None:
            section = head[1]
        elif section == "Physical Plan" and line.strip():
            lines.append(line)
        elif section == "Segments" and (share := _SHARE.fullmatch(line)) is not None:
            shares.append(Share(share[1], int(share[2].replace(",", "")), int(share[3].replace(",", ""))))
    return QueryPlan(tuple(_trees(lines)), tuple(shares))


def _trees(lines: list[str]) -> Iterator[Step]:
    """Each line is one step; those below a line that are further to the right are what it reads from."""
    starts = [(match.end() if (match := _MARK.match(line)) else 0) for line in lines]

    def step(index: int) -> tuple[Step, int]:
        inputs, following = [], index + 1
        while following < len(lines) and starts[following] > starts[index]:
            one, following = step(following)
            inputs.append(one)
        return _step(lines[index][starts[index] :], tuple(inputs)), following

    index = 0
    while index < len(lines):
        one, index = step(index)
        yield one


def _step(line: str, inputs: tuple[Step, ...]) -> Step:
    body = _STAGE.sub("", _NUMBERED.sub("", line).strip())
    name = match[0] if (match := _NAME.match(body)) else body[:40]
    rest = body[len(name) :].strip()
    first, *parts = _PARTS.split(rest)
    details = [("", first.strip())] if first.strip() else []
    details += [(_KEPT[key], value) for key, value in zip(parts[::2], parts[1::2], strict=True) if _is_kept(key, value)]
    return Step(name, tuple(details), inputs)


def _is_kept(key: str, value: str) -> bool:
    return key in _KEPT and value not in ("", "[]")


__all__ = ["plan_steps"]
