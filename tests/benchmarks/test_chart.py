"""The chart of ratios, and the figures of memory beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from benchmarks.chart import draw
from benchmarks.harness import Line, Sample
from benchmarks.memory import Watch

_SVG = "{http://www.w3.org/2000/svg}"


def line(case: str, ratio: float, target: float | None = None) -> Line:
    return Line("some", case, Sample((ratio,)), Sample((1.0,)), "peer", target)


def test_a_bar_is_as_long_as_its_ratio_and_on_its_side() -> None:
    lines = [line("half", 0.5), line("four & more", 4.0, 2.0), Line("some", "skipped", reason="no peer")]
    picture = ElementTree.fromstring(draw(lines, "a <note>"))
    half, four = picture.findall(f"{_SVG}rect")[1:]
    assert float(four.attrib["width"]) == 2 * float(half.attrib["width"])
    assert float(half.attrib["x"]) < float(four.attrib["x"])
    texts = [text.text for text in picture.iter(f"{_SVG}text")]
    assert "some: four & more" in texts
    assert "4.00" in texts
    assert "some: skipped" not in texts


def test_ratios_beyond_the_scale_are_drawn_at_its_end() -> None:
    picture = ElementTree.fromstring(draw([line("far", 1e9), line("near", 1e-9)], ""))
    width = float(picture.attrib["width"])
    assert all(0 <= float(bar.attrib["x"]) <= width for bar in picture.findall(f"{_SVG}rect")[1:])


def test_without_ratios_there_is_an_empty_picture() -> None:
    assert not ElementTree.fromstring(draw([], "nothing")).findall(f"{_SVG}rect")[1:]


def test_memory_of_children_is_counted_as_workers() -> None:
    code = "import time; data = bytearray(64 << 20); print('ready', flush=True); time.sleep(60)"
    with Watch() as watch:
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        with Watch(child.pid) as inner:
            pass
    with child:
        child.kill()
    assert watch.peaks["driver"] > 1 << 20
    assert watch.peaks["workers"] > 64 << 20
    assert inner.peaks["driver"] > 64 << 20
    assert inner.peaks["jvm"] == 0
    assert inner.python == inner.peaks["driver"], "it has no children"
    assert os.getpid() != child.pid
