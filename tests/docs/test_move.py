"""The page that moves a lake to PostgreSQL and S3 does so, with the addresses of the tests in place of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import moulin
from tests.docs import pages
from tests.docs.test_examples import ENVIRONMENT, ROOT

_PAGE = ROOT / "docs" / "howto" / "move_to_postgres_and_s3.md"


def test_a_lake_moves_as_the_page_says(
    tmp_path: Path, postgres_url: str, s3_url: str, s3_options: dict[str, str]
) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        lake.create_table("shop.orders", [("id", "long", False)], primary_key=["id"]).put({"id": 7})
    targets = " ".join(f"--target-option {name}={value}" for name, value in s3_options.items())
    ours = {
        "postgresql://moulin@db.example.org/lake": postgres_url,
        "s3://bucket/lake": s3_url,
        "--target-option region=eu-west-1": targets,
        '{"region": "eu-west-1"}': json.dumps(s3_options),
        "export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...\n": "",
    }
    text = _PAGE.read_text(encoding="utf-8")
    assert all(one in text for one in ours)
    for theirs, our in ours.items():
        text = text.replace(theirs, our)
    shell = "".join(block.code for block in pages.blocks(text) if block.kind == "sh")
    shown = pages.in_shell(shell, folder=tmp_path, environment=ENVIRONMENT)
    assert "orders" in shown
    [python] = [block.code for block in pages.blocks(text) if block.kind == "python"]
    count = "import moulin\n" + python + "print(lake.table('shop.orders').scan().to_pylist())\nlake.close()"
    done = subprocess.run([sys.executable, "-c", count], check=True, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert done.stdout == "[{'id': 7}]\n"
