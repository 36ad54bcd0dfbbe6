"""What only an object store can do, or suffer: options, secrets, networks."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest

from moulin.errors import Corrupt, FailedPrecondition, InvalidInput, MoulinError, Unavailable
from moulin.storage import Store, open_store, range_file, remote

SECRETS = {"access_key_id": "AKIAHUSHHUSH", "secret_access_key": "hush/hush+hush", "session_token": "hush-token"}
QUICK: Any = {**remote._RETRY, "max_retries": 0}


def test_a_store_shows_its_uri_in_one_spelling() -> None:
    assert open_store("s3://bucket/some/prefix/", SECRETS).uri == "s3://bucket/some/prefix"
    assert open_store("s3://bucket", SECRETS).uri == "s3://bucket"
    assert open_store("gs://bucket/prefix", {"skip_signature": "true"}).uri == "gs://bucket/prefix"
    azure = {"account_name": "name", "account_key": "aHVzaA=="}
    assert open_store("az://container/prefix", azure).uri == "az://container/prefix"
    assert open_store("abfss://container@name.dfs.core.windows.net/p", azure).uri.endswith("windows.net/p")
    store = open_store("s3://bucket/p", SECRETS)
    assert not store.is_local
    assert store.local_path("a") is None


@pytest.mark.parametrize(
    "uri",
    [
        "s3://AKIAHUSHHUSH:hush@bucket/p",
        "s3://hush@bucket/p",
        "s3:/hush:hush@bucket",
        "s3://bucket/p?X-Amz-Signature=hush",
        "s3://bucket/p#hush",
        "abfss://container:hush@name.dfs.core.windows.net/p",
        "s3://",
        "s3://[hush/p",
        "s3://bucket/../hush",
        "zork://hush/p",
        "http://hush/p",
    ],
)
def test_bad_uris_are_refused_without_showing_what_they_hold(uri: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_store(uri, {})
    if "../" not in uri:
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"zork": "hush"}, "zork"),
        ({"endpoint": "hush"}, "endpoint"),
        ({"aws_endpoint_url": "ftp://hush"}, "aws_endpoint_url"),
        ({"endpoint": "http://[hush"}, "endpoint"),
        ({"skip_signature": "hush"}, "skip_signature"),
        ({"timeout": "hush"}, "timeout"),
        ({"allow_http": "hush"}, "allow_http"),
        ({"secret_access_key": 7}, "secret_access_key"),
    ],
)
def test_bad_options_are_named_without_their_values(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named) as caught:
        open_store("s3://bucket/p", options)
    assert "hush" not in str(caught.value)


def test_no_secret_shows_in_a_store(s3_server: str) -> None:
    store = open_store("s3://bucket/p", {**SECRETS, "endpoint": s3_server})
    assert "hush" not in f"{store} {store!r} {store.uri} {[store]}".lower()
    assert pickle.loads(pickle.dumps(store)).uri == store.uri


def test_a_refused_connection_is_unavailable_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    store = open_store("s3://bucket/p", {**SECRETS, "endpoint": address})
    with pytest.raises(Unavailable, match="connection was refused"):
        store.check_put_if_absent()
    monkeypatch.setattr(remote, "_RETRY", QUICK)
    _assert_unavailable(open_store("s3://bucket/p", {**SECRETS, "endpoint": address}), "connection was refused")


def test_an_unknown_host_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_RETRY", QUICK)
    store = open_store("s3://bucket/p", {**SECRETS, "endpoint": "http://nowhere.invalid"})
    with pytest.raises(Unavailable, match="host name is unknown"):
        store.get("a")


def test_a_silent_server_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_RETRY", QUICK)
    with _answering(200, b"", delay=5) as address:
        store = open_store("s3://bucket/p", {**SECRETS, "endpoint": address, "timeout": "200ms"})
        with pytest.raises(Unavailable, match="in time"):
            store.get("a")


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (403, "SignatureDoesNotMatch", "credentials"),
        (401, "ExpiredToken", "credentials"),
        (503, "SlowDown", "503 SlowDown"),
        (500, "InternalError", "500 InternalError"),
        (400, "InvalidRequest", "400 InvalidRequest"),
    ],
)
def test_what_a_server_refuses_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, reason: str
) -> None:
    monkeypatch.setattr(remote, "_RETRY", QUICK)
    body = f"<Error><Code>{code}</Code><StringToSign>{SECRETS}</StringToSign></Error>"
    with _answering(status, body.encode()) as address:
        store = open_store("s3://bucket/p", {**SECRETS, "endpoint": address})
        _assert_unavailable(store, reason)


@pytest.mark.s3
def test_a_missing_bucket_is_said_to_be_missing(s3_options: dict[str, str]) -> None:
    store = open_store("s3://no-such-bucket/p", s3_options)
    uses = (store.get, store.reader, lambda path: store.put(path, b""), lambda path: [*store.list(path)])
    for use in (*uses, lambda path: store.delete([path]), lambda _: store.check_put_if_absent()):
        with pytest.raises(FailedPrecondition, match="bucket of s3://no-such-bucket/p does not exist"):
            use("a")


@pytest.mark.s3
def test_a_store_without_conditional_put_is_refused(s3_url: str, s3_options: dict[str, str]) -> None:
    store = open_store(s3_url, {**s3_options, "conditional_put": "disabled"})
    with pytest.raises(FailedPrecondition, match="does not support"):
        store.check_put_if_absent()
    assert [*store.list()] == []


@pytest.mark.s3
def test_a_failed_writer_drops_its_parts(s3_url: str, s3_options: dict[str, str]) -> None:
    store = open_store(s3_url, s3_options)
    with pytest.raises(KeyError), store.writer("a") as file:
        file.write(bytes(20 << 20))
        raise KeyError("own error")
    assert "Uploads" not in _client(s3_options).list_multipart_uploads(Bucket=s3_url.split("/")[2])
    assert [*store.list()] == []


@pytest.mark.s3
def test_lakes_in_one_bucket_do_not_see_each_other(s3_url: str, s3_options: dict[str, str]) -> None:
    one, other = open_store(f"{s3_url}/one", s3_options), open_store(f"{s3_url}/one-more", s3_options)
    one.put("a", b"one")
    other.put("a", b"other")
    assert [info.path for info in one.list()] == ["a"]
    assert one.get("a") == b"one"


def test_a_write_to_a_dead_server_shows_in_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_RETRY", QUICK)
    store = open_store("s3://bucket/p", {**SECRETS, "endpoint": "http://127.0.0.1:9"})
    with pytest.raises(Unavailable, match="p/a"), store.writer("a") as file:
        file.write(b"small")
    with pytest.raises(Unavailable, match="p/a"), store.writer("a") as file:
        for _ in range(40):
            file.write(bytes(1 << 20))


def test_near_ranges_share_a_request_and_far_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("memory://ranges")
    data = os.urandom(5 << 20)
    store.put("a", data)
    asked: list[tuple[int, int]] = []
    original = type(store).get_range

    def record(self: Store, path: str, start: int, length: int) -> bytes:
        asked.append((start, length))
        return original(self, path, start, length)

    monkeypatch.setattr(type(store), "get_range", record)
    ranges = [(4 << 20, 10), (100, 10), (105, 1000), (0, 5), (102, 2), (50_000, 3)]
    assert store.get_ranges("a", ranges) == tuple(data[start : start + length] for start, length in ranges)
    assert sorted(asked) == [(0, 50_003), (4 << 20, 10)]


def test_an_object_that_shrinks_under_a_reader_is_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_WHOLE_OBJECT_BYTES", 10)
    monkeypatch.setattr(range_file, "READ_AHEAD_BYTES", 4)
    store = open_store("memory://shrinking")
    store.put("a", bytes(100))
    source = store.reader("a")
    store.put("a", bytes(50))
    with pytest.raises(Corrupt, match="shrinking/a"):
        source.read_at(20, 40)


def test_a_forked_child_is_refused_instead_of_hanging() -> None:
    program = """
import os
from moulin.errors import FailedPrecondition
from moulin.storage import open_store
store = open_store("memory://forked")
if os.fork() == 0:  # not used yet: nothing is lost
    store.put("a", b"child")
    os._exit(0)
os.wait()
store.put("a", b"parent")
if os.fork() == 0:
    try:
        store.get("a")
    except FailedPrecondition as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
print(store.get("a"))
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    said = subprocess.run(command, check=True, timeout=60, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    assert len(said) == 2
    assert "spawn" in said[0]
    assert said[1] == "b'parent'"


def _client(options: dict[str, str]) -> Any:
    keys = {"aws_access_key_id": options["access_key_id"], "aws_secret_access_key": options["secret_access_key"]}
    return boto3.client("s3", endpoint_url=options["endpoint"], region_name="us-east-1", **keys)


def _assert_unavailable(store: Store, reason: str) -> None:
    uses: list[Any] = [
        store.get,
        store.head,
        store.reader,
        lambda path: store.get_range(path, 0, 1),
        lambda path: store.put_if_absent(path, b"x"),
        lambda path: [*store.list(path)],
        lambda path: store.delete([path]),
    ]
    for use in uses:
        with pytest.raises(MoulinError) as caught:
            use("a")
        assert type(caught.value) is Unavailable
        assert caught.value.__suppress_context__
        assert "s3://bucket/p" in str(caught.value)
        assert "hush" not in str(caught.value).lower()
        if use != store.head:  # an answer to HEAD has no body to tell more
            assert reason in str(caught.value)


@contextmanager
def _answering(status: int, body: bytes, delay: float = 0) -> Iterator[str]:
    """A server with one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            if stopped.wait(delay):
                return
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    stopped = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
