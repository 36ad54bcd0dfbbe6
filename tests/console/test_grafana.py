"""The examples for Grafana: every query of the dashboards is one that the servers answer, of the sources provided."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from moulin.console.loki import logql
from moulin.console.prometheus import promql

EXAMPLES = Path(__file__).parents[2] / "examples" / "grafana"
BOARDS = sorted((EXAMPLES / "dashboards").glob("*.json"))
VARIABLES = {"$__rate_interval": "5m", "$__auto": "1m", "$job": "web", "$service": "cart", "$text": "timed out"}


def sources() -> dict[str, Any]:
    found = yaml.safe_load((EXAMPLES / "provisioning" / "datasources" / "moulin.yaml").read_text())
    return {one["uid"]: one for one in found["datasources"]}


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_every_query_of_a_dashboard_is_served(path: Path) -> None:
    known, board = sources(), json.loads(path.read_text())
    queries = [(target["datasource"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]
    assert queries
    for source, text in queries:
        assert known[source["uid"]]["type"] == source["type"]
        filled = re.sub(r"\$\w+", lambda found: VARIABLES[found[0]], text)
        (promql if source["type"] == "prometheus" else logql).parse(filled)


def test_sources_are_provisioned_with_a_token_as_header() -> None:
    found = sources()
    assert {one["type"]: one["url"] for one in found.values()} == {
        "jaeger": "$MOULIN_URL/jaeger",
        "loki": "$MOULIN_URL/loki",
        "prometheus": "$MOULIN_URL/prometheus",
    }
    for one in found.values():
        assert one["secureJsonData"]["httpHeaderValue1"] == "Bearer $MOULIN_TOKEN"
    yaml.safe_load((EXAMPLES / "provisioning" / "dashboards" / "moulin.yaml").read_text())
