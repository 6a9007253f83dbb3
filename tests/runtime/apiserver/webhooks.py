"""An admission webhook whose path selects its response. It is called directly, or over HTTPS on loopback."""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.server
import json
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kcm.runtime.apiserver.core.questions import ELAPSED, Answer, Post, Question
from tests.e2e.real_server import write_keys

Review = dict[str, Any]


def _patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(operations).encode()).decode(),
    }


def _add_label(key: str, value: str = "yes") -> Callable[[Review], dict[str, Any]]:
    def answer(review: Review) -> dict[str, Any]:
        labels = review["request"]["object"]["metadata"].get("labels")
        if labels is None:
            return _patch({"op": "add", "path": "/metadata/labels", "value": {key: value}})
        return _patch({"op": "add", "path": f"/metadata/labels/{key}", "value": value})

    return answer


def _count(review: Review) -> dict[str, Any]:
    """Return a patch with the number of calls for the object."""
    labels = review["request"]["object"]["metadata"].get("labels") or {}
    return _add_label("count", str(int(labels.get("count", "0")) + 1))(review)


ANSWERS: dict[str, Callable[[Review], dict[str, Any]]] = {
    "/allow": lambda _review: {"allowed": True},
    "/warn": lambda _review: {"allowed": True, "warnings": ["mind the gap", "mind the gap"]},
    "/deny": lambda _review: {"allowed": False, "warnings": ["so be it"]},
    "/deny-because": lambda _review: {"allowed": False, "status": {"message": "it is a Monday", "code": 200}},
    "/deny-reason": lambda _review: {"allowed": False, "status": {"reason": "TooMany", "code": 429}},
    "/deny-details": lambda _review: {
        "allowed": False,
        "status": {"message": "no", "reason": "Invalid", "code": 422, "details": {"name": "n", "kind": "k"}},
    },
    "/label-a": _add_label("a"),
    "/label-b": _add_label("b"),
    "/count": _count,
    "/namespace": lambda _review: _patch({"op": "replace", "path": "/metadata/namespace", "value": "default"}),
    "/data": lambda _review: _patch({"op": "add", "path": "/data", "value": {"k": "v"}}),
    "/wrong-type": lambda _review: _patch({"op": "add", "path": "/data", "value": "text"}),
    "/nowhere": lambda _review: _patch({"op": "remove", "path": "/none"}),
    "/empty-patch": lambda _review: _patch(),
    "/no-patch-type": lambda _review: {**_patch(), "patchType": None},
    "/no-patch": lambda _review: {"allowed": True, "patchType": "JSONPatch"},
    "/other-patch": lambda _review: {**_patch({"op": "add"}), "patchType": "Merge"},
    "/bad-patch": lambda _review: {"allowed": True, "patchType": "JSONPatch", "patch": "bm8="},
    "/wrong-uid": lambda _review: {"allowed": True, "uid": "other"},
    "/replicas": lambda _review: _patch({"op": "replace", "path": "/spec/replicas", "value": 7}),
}


@cache
def _bomb() -> tuple[bytes, str]:
    """Return 400 MB of zeros, compressed to 2 MB, and their Content-Encoding."""
    part = bytes(1_000_000)
    whole = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
    return b"".join(whole.compress(part) for _ in range(400)) + whole.flush(), "gzip"


BODIES: dict[str, Callable[[], tuple[bytes, str]]] = {
    "/large": lambda: (b" " * 20_000_000, ""),
    "/bomb": _bomb,
    "/cut-gzip": lambda: (gzip.compress(b"{}" * 100)[:-9], "gzip"),
    "/no-gzip": lambda: (b"{}", "gzip"),
}


class Hook:
    """Webhook. `heard` contains the paths and requests of the reviews that it received."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Review]] = []

    def body(self, path: str) -> tuple[bytes, str] | None:
        """Return the body to send instead of a review, and its Content-Encoding."""
        return BODIES[path]() if path in BODIES else None

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        review = json.loads(body)
        self.heard.append((path, review["request"]))
        match path:
            case "/fails":
                return 500, b"oh no"
            case "/lost":
                return 404, b"404 page not found"
            case "/silent":
                return 200, b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}'
            case "/old":
                response = {"uid": review["request"]["uid"], "allowed": True}
                old = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1", "response": response}
                return 200, json.dumps(old).encode()
        response = {"uid": review["request"]["uid"], **ANSWERS[path](review)}
        return 200, json.dumps({**review, "response": response}).encode()

    def ask(self, question: Question) -> Answer:
        """Return the response to a question, in the signature of the server's `ask`."""
        if not isinstance(question, Post):
            return ELAPSED
        parts = urlsplit(question.url)
        if parts.port == 1:
            return Answer(error=f'Post "{question.url}": dial tcp 127.0.0.1:1: connect: connection refused')
        return Answer(*self.answer(parts.path, question.body))


@contextmanager
def serving(hook: Hook, directory: Path) -> Iterator[tuple[str, bytes]]:
    """Serve the webhook over HTTPS with keys in `directory`, and yield its URL and the PEM of its certificate."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            path = urlsplit(self.path).path
            given = hook.body(path)
            status, answer = hook.answer(path, body) if given is None else (200, given[0])
            self.send_response(status)
            if given is not None and given[1]:
                self.send_header("Content-Encoding", given[1])
            self.send_header("Content-Type", "application/json" if status == 200 else "text/plain")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            with contextlib.suppress(OSError):  # the client may close the connection early
                self.wfile.write(answer)

        def log_message(self, *_arguments: Any) -> None:
            """Log nothing."""

    write_keys(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "apiserver.crt", directory / "apiserver.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}", (directory / "apiserver.crt").read_bytes()
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
