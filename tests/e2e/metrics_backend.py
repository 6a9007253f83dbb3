"""A server of metrics.k8s.io, beside a real kube-apiserver that an APIService leads to it."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.e2e.kubectl import Api, Object
from tests.e2e.programs import until

GROUP = "metrics.k8s.io"
SERVICE = {"name": "metrics", "namespace": "default"}
Usage = Mapping[str, Mapping[str, str]]  # of the container c, by the pod's name


@contextmanager
def metrics_backend(api: Api, keys: Path, usage: Usage) -> Iterator[None]:
    """Serve the same usage in each namespace. The name of a pod begins with its app."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _answering(usage))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(keys / "apiserver.crt", keys / "apiserver.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        _register(api, server.server_address[1])
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _register(api: Api, port: int) -> None:
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    api.request("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "metrics"}, "spec": spec})
    service: Object = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1beta1.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": "v1beta1",
            "service": {**SERVICE, "port": port},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    api.request("POST", path, service)

    def available() -> bool:
        conditions = (api.get(f"{path}/v1beta1.{GROUP}").get("status") or {}).get("conditions") or ()
        return any(condition["type"] == "Available" and condition["status"] == "True" for condition in conditions)

    until(available, "metrics are served", why=lambda: json.dumps(api.get(f"{path}/v1beta1.{GROUP}")))


def _answering(usage: Usage) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = json.dumps(_document(self.path, usage)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _document(path: str, usage: Usage) -> Object:
    where, _, query = path.partition("?")
    if "/namespaces/" not in where:
        verbs = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/v1beta1", "resources": [verbs]}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    items = [
        {
            "metadata": {"name": pod},
            "timestamp": now,
            "window": "10s",
            "containers": [{"name": "c", "usage": dict(used)}],
        }
        for pod, used in usage.items()
        if query.endswith(f"app%3D{pod.partition('-')[0]}")
    ]
    return {"kind": "PodMetricsList", "apiVersion": f"{GROUP}/v1beta1", "metadata": {}, "items": items}
