"""Ratios as an SVG picture: a bar for each, on a scale of powers of two, with a line at 1 and a mark at the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.harness import Line, Status

_ROW, _LABEL, _WIDTH, _HEAD = 22, 520, 480, 64
_COLORS = {Status.OK: "#3b8250", Status.OVER: "#c9822b", Status.NO_TARGET: "#6b7f99"}
_GREY, _DARK = "#d5d9de", "#24292f"
_MOST = 10  # powers of two that a side of the picture has at most


def draw(lines: Sequence[Line], note: str) -> str:
    """The lines that have a ratio, in their order."""
    shown = [(line, line.ratio) for line in lines if line.ratio is not None and line.ratio > 0]
    powers = [math.log2(ratio) for _, ratio in shown] + [math.log2(line.target) for line, _ in shown if line.target]
    low = max(-_MOST, 2 * math.floor(min([-1.0, *powers]) / 2))
    high = min(_MOST, 2 * math.ceil(max([1.0, *powers]) / 2))

    def at(ratio: float) -> float:
        return _LABEL + (min(max(math.log2(ratio), low), high) - low) / (high - low) * _WIDTH

    height, width = _HEAD + _ROW * len(shown) + 28, _LABEL + _WIDTH + 80
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="{_DARK}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<text x="16" y="24" font-size="16" font-weight="bold">Moulin / peer: smaller is better</text>',
        f'<text x="16" y="44">{escape(note)}; green: target met, orange: missed, the tick is the target</text>',
    ]
    for power in range(low, high + 1, 1 if high - low < _MOST else 2):
        x, label = at(2.0**power), f"{2**power}" if power >= 0 else f"1/{2**-power}"
        line_color, line_width = (_DARK, 1.5) if power == 0 else (_GREY, 1)
        parts.append(
            f'<line x1="{x:.1f}" y1="{_HEAD - 6}" x2="{x:.1f}" y2="{height - 24}" '
            f'stroke="{line_color}" stroke-width="{line_width}"/>'
            f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{label}</text>'
        )
    for number, (line, ratio) in enumerate(shown):
        parts.append(_bar(line, ratio, _HEAD + number * _ROW, at(ratio), at(1), at(line.target or 1)))
    return "\n".join([*parts, "</svg>\n"])


def _bar(line: Line, ratio: float, y: int, end: float, one: float, target: float) -> str:
    text = f"{line.benchmark}: {line.case}"
    text = text if len(text) <= 78 else f"{text[:76]}..."
    middle, color = y + 13, _COLORS.get(line.status, _GREY)
    mark = f'<line x1="{target:.1f}" y1="{y}" x2="{target:.1f}" y2="{y + 18}" stroke="{_DARK}" stroke-width="2"/>'
    return (
        f'<text x="{_LABEL - 10}" y="{middle}" text-anchor="end">{escape(text)}</text>'
        f'<rect x="{min(end, one):.1f}" y="{y + 3}" width="{max(abs(end - one), 1):.1f}" height="12" fill="{color}"/>'
        f"{mark if line.target else ''}"
        f'<text x="{max(end, one, target if line.target else 0) + 6:.1f}" y="{middle}">{ratio:.2f}</text>'
    )
