"""The end of the tour: the lake in a browser."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import moulin


def test_who_stays_is_told_an_address_that_shows_the_lake_until_ctrl_c(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        lake.create_table("shop.orders", [("id", "long")])
    code = "import sys; from pathlib import Path; from moulin.cli.demo.stay import stay; stay(Path(sys.argv[1]))"
    words = [sys.executable, "-u", "-c", code, str(tmp_path / "lake")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", said)
        assert found is not None, said
        with urllib.request.urlopen(found[0], timeout=30) as page:
            assert b'<div id="app">' in page.read()
        with urllib.request.urlopen(f"{found[0]}api/v1/tables", timeout=30) as answer:
            assert [one["name"] for one in json.load(answer)["items"]] == ["orders"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
