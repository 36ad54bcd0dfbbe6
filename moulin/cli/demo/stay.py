"""The end of the tour with --stay: serves the console until Ctrl-C."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path
from typing import Final

import moulin
from moulin.cli.output import console
from moulin.cli.served import Sql, mount

_PORT: Final = 8181


def stay(root: Path) -> None:
    """Serve the lake on loopback, and print the address of its console."""
    from moulin.meta.config import ServeConfig
    from moulin.meta.server.serve import Serving, run_until_signal

    port = _PORT if _is_free(_PORT) else 0
    with moulin.connect(root) as lake:
        config = ServeConfig(bind="127.0.0.1:0", http_bind=f"127.0.0.1:{port}", drain_seconds=1.0)
        serving = Serving(lake, config, mount=lambda app: mount(app, Sql("on")))
        assert serving.http is not None
        address = f"http://127.0.0.1:{serving.http.port}/"
        run_until_signal(serving, ready=lambda: console.print(f"The lake is at {address} until Ctrl-C.", markup=False))


def _is_free(port: int) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
