"""Complete HTTP/1.1 responses, heads included."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

RESPONSES = Path(__file__).with_name("responses") / "wire.json"
MAPS = "/api/v1/namespaces/wire/configmaps"
MAP = json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v <&> é"}})
PLAIN = {"Content-Type": "application/json"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Exchange(NamedTuple):
    """Request with a name."""

    name: str
    method: str = "GET"
    target: str = ""
    body: str = ""
    lines: dict[str, str] = {}  # noqa: RUF012 - never changed
    user: str = "admin"  # or "unknown", "wrong", "jane"
    raw: str = ""  # the whole request; replaces the other fields

    def as_sent(self, token: str) -> bytes:
        if self.raw:
            return self.raw.encode()
        lines = {"Host": "127.0.0.1:6443", **self.lines}
        if self.user in ("admin", "jane"):
            lines["Authorization"] = f"Bearer {token}"
        if self.user == "jane":
            lines["Impersonate-User"] = "jane"
        if self.user == "wrong":
            lines["Authorization"] = "Bearer wrong"
        if self.body:
            lines["Content-Length"] = str(len(self.body.encode()))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{self.method} {self.target} HTTP/1.1\r\n{head}\r\n{self.body}".encode()


EXCHANGES = [
    Exchange("namespace", "POST", "/api/v1/namespaces", '{"metadata":{"name":"wire"}}', PLAIN),
    Exchange("create", "POST", MAPS, MAP, PLAIN),
    Exchange("create again", "POST", MAPS, MAP, PLAIN),
    Exchange("create with warning", "POST", MAPS, '{"metadata":{"name":"w"},"dta":{}}', PLAIN),
    Exchange("create strictly", "POST", f"{MAPS}?fieldValidation=Strict", '{"metadata":{"name":"w"},"dta":{}}', PLAIN),
    Exchange("create dry", "POST", f"{MAPS}?dryRun=All", '{"metadata":{"name":"d"}}', PLAIN),
    Exchange("create nameless", "POST", MAPS, "{}", PLAIN),
    Exchange("create invalid", "POST", MAPS, '{"metadata":{"name":"A b"}}', PLAIN),
    Exchange("create from nothing", "POST", MAPS, "", {**PLAIN, "Content-Length": "0"}),
    Exchange("create from garbage", "POST", MAPS, "{", PLAIN),
    Exchange("create in another type", "POST", MAPS, "x", {"Content-Type": "text/plain"}),
    Exchange("create in YAML", "POST", MAPS, "metadata:\n  name: yy\n", {"Content-Type": "application/yaml"}),
    Exchange("create in no namespace", "POST", "/api/v1/namespaces/none/configmaps", MAP, PLAIN),
    Exchange("create as nobody in particular", "POST", MAPS, MAP, PLAIN, user="jane"),
    Exchange("get", target=f"{MAPS}/a"),
    Exchange("get pretty", target=f"{MAPS}/a?pretty=true"),
    Exchange("get as a browser", target=f"{MAPS}/a", lines={"User-Agent": "Mozilla/5.0"}),
    Exchange("get as curl", target=f"{MAPS}/a", lines={"User-Agent": "curl/8.5.0", "Accept": "*/*"}),
    Exchange("get absent", target=f"{MAPS}/absent"),
    Exchange("get table", target=f"{MAPS}/a", lines={"Accept": TABLE}),
    Exchange("get metadata", target=f"{MAPS}/a", lines={"Accept": PARTIAL}),
    Exchange("get in another type", target=f"{MAPS}/a", lines={"Accept": "text/html"}),
    Exchange("get in YAML", target=f"{MAPS}/a", lines={"Accept": "application/yaml"}),
    Exchange("get as jane", target=f"{MAPS}/a", user="jane"),
    Exchange("get as unknown", target=f"{MAPS}/a", user="unknown"),
    Exchange("get with a wrong token", target=f"{MAPS}/a", user="wrong"),
    Exchange("get of HTTP/1.0", raw="GET /livez HTTP/1.0\r\n\r\n"),
    Exchange("get closing", target="/livez", lines={"Connection": "close"}),
    Exchange("head", "HEAD", f"{MAPS}/a"),
    Exchange("options", "OPTIONS", f"{MAPS}/a"),
    Exchange("list", target=f"{MAPS}?labelSelector=none"),
    Exchange("list some", target=f"{MAPS}?limit=1"),
    Exchange("list table", target=f"{MAPS}?labelSelector=none", lines={"Accept": TABLE}),
    Exchange("list metadata", target=f"{MAPS}?labelSelector=none", lines={"Accept": PARTIAL_LIST}),
    Exchange("list by a wrong selector", target=f"{MAPS}?labelSelector=((("),
    Exchange("list by a wrong field", target=f"{MAPS}?fieldSelector=a=b"),
    Exchange("list of the future", target=f"{MAPS}?resourceVersion=x"),
    Exchange("list deprecated", target="/api/v1/namespaces/wire/endpoints"),
    Exchange("watch", target=f"{MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name=a"),
    Exchange(
        "watch table",
        target=f"{MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name=a",
        lines={"Accept": TABLE},
    ),
    Exchange(
        "watch metadata",
        target=f"{MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name=a",
        lines={"Accept": PARTIAL},
    ),
    Exchange("watch too old", target=f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=1"),
    Exchange("watch wrongly", target=f"{MAPS}?watch=1&resourceVersion=x"),
    Exchange("update", "PUT", f"{MAPS}/a", MAP, PLAIN),
    Exchange("update another", "PUT", f"{MAPS}/b", MAP, PLAIN),
    Exchange("update absent", "PUT", f"{MAPS}/absent", '{"metadata":{"name":"absent","resourceVersion":"1"}}', PLAIN),
    Exchange(
        "update stale", "PUT", f"{MAPS}/a", '{"metadata":{"name":"a","resourceVersion":"1"},"data":{"n":"1"}}', PLAIN
    ),
    Exchange("merge", "PATCH", f"{MAPS}/a", '{"data":{"m":"1"}}', {"Content-Type": "application/merge-patch+json"}),
    Exchange("patch garbage", "PATCH", f"{MAPS}/a", "{", {"Content-Type": "application/merge-patch+json"}),
    Exchange(
        "patch garbage in the middle",
        "PATCH",
        f"{MAPS}/a",
        '{"a" "b"}',
        {"Content-Type": "application/merge-patch+json"},
    ),
    Exchange("patch in another type", "PATCH", f"{MAPS}/a", "{}", {"Content-Type": "text/plain"}),
    Exchange("patch JSON", "PATCH", f"{MAPS}/a", "[]", {"Content-Type": "application/json-patch+json"}),
    Exchange(
        "patch in vain",
        "PATCH",
        f"{MAPS}/a",
        '[{"op":"test","path":"/data/k","value":"x"}]',
        {"Content-Type": "application/json-patch+json"},
    ),
    Exchange(
        "apply",
        "PATCH",
        f"{MAPS}/applied?fieldManager=t",
        '{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"applied"}}',
        {"Content-Type": "application/apply-patch+yaml"},
    ),
    Exchange("apply as nobody", "PATCH", f"{MAPS}/applied", "{}", {"Content-Type": "application/apply-patch+yaml"}),
    Exchange("delete", "DELETE", f"{MAPS}/a"),
    Exchange("delete again", "DELETE", f"{MAPS}/a"),
    Exchange("delete with options", "DELETE", f"{MAPS}/applied", '{"gracePeriodSeconds":-1}', PLAIN),
    Exchange("delete all", "DELETE", f"{MAPS}?labelSelector=none"),
    Exchange("post to an object", "POST", f"{MAPS}/a", MAP, PLAIN),
    Exchange("put to a collection", "PUT", MAPS, MAP, PLAIN),
    Exchange("unknown resource", target="/api/v1/nothings"),
    Exchange("unknown group", target="/apis/nothing.example.com/v1"),
    Exchange("unknown subresource", target=f"{MAPS}/a/status"),
    Exchange("unknown path", target="/nothing"),
    Exchange("unknown path as jane", target="/nothing", user="jane"),
    Exchange("unknown path as unknown", target="/nothing", user="unknown"),
    Exchange("post to a page", "POST", "/version", "{}", PLAIN),
    Exchange("livez", target="/livez"),
    Exchange("livez as unknown", target="/livez", user="unknown"),
    Exchange("unknown check", target="/livez/nothing"),
    Exchange("version", target="/version"),
    Exchange("api", target="/api"),
    Exchange("api/v1", target="/api/v1"),
    Exchange("aggregated", target="/api", lines={"Accept": AGGREGATED}),
    Exchange("group", target="/apis/apps"),
    Exchange("group/version", target="/apis/apps/v1"),
    Exchange("keys", target="/openid/v1/jwks"),
    Exchange("issuer", target="/.well-known/openid-configuration"),
    Exchange("review", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}", PLAIN),
    Exchange(
        "access review",
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        '{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}',
        PLAIN,
    ),
    Exchange("token", "POST", "/api/v1/namespaces/wire/serviceaccounts/none/token", "{}", PLAIN),
    Exchange("scale", target="/apis/apps/v1/namespaces/wire/deployments/none/scale"),
    Exchange("evict", "POST", "/api/v1/namespaces/wire/pods/none/eviction", '{"metadata":{"name":"none"}}', PLAIN),
    Exchange("no host", raw="GET /livez HTTP/1.1\r\n\r\n"),
    Exchange("two hosts", raw="GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    Exchange("malformed host", raw="GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n"),
    Exchange("malformed line", raw="GET /livez HTTP/1.1\r\nHost: a\r\nbroken\r\n\r\n"),
    Exchange("malformed request", raw="hello there\r\n\r\n"),
    Exchange("malformed name", raw="GET /livez HTTP/1.1\r\nHost: a\r\na b: c\r\n\r\n"),
    Exchange("unknown protocol", raw="GET /livez HTTP/3.7\r\nHost: a\r\n\r\n"),
    Exchange("unknown coding", raw="GET /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n"),
    Exchange("expecting", raw="GET /livez HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n"),
    Exchange("two lengths", raw="GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
    Exchange("large head", raw="GET /livez HTTP/1.1\r\nHost: a\r\nX: " + "x" * 1_200_000 + "\r\n\r\n"),
    Exchange("unknown method", raw="BREW /livez HTTP/1.1\r\nHost: a\r\n\r\n"),
    Exchange("absolute", raw="GET http://other/livez HTTP/1.1\r\nHost: a\r\n\r\n"),
    Exchange("asterisk", raw="OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
]


def exchanged(host: str, port: int, tls: ssl.SSLContext | None, token: str) -> dict[str, str]:
    """Return the responses by the names of their exchanges, each on a new connection."""
    found = {}
    for exchange in EXCHANGES:
        plain = socket.create_connection((host, port), timeout=20)
        with plain if tls is None else tls.wrap_socket(plain, server_hostname=host) as connection:
            with contextlib.suppress(OSError):  # a server may respond before it has read the whole request
                connection.sendall(exchange.as_sent(token))
            found[exchange.name] = shown(_response(connection, exchange.method))
    return found


def _response(connection: socket.socket, method: str) -> bytes:
    """Return the bytes of a response, with the chunks of its body joined."""
    connection.settimeout(15)
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            part = connection.recv(65_536)
            if not part:
                return data
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?im)^content-length: (\d+)", head)
        if method == "HEAD" or b" 304 " in head[:20]:
            connection.settimeout(0.3)
            with contextlib.suppress(OSError):
                body += connection.recv(65_536)
        elif re.search(rb"(?im)^transfer-encoding: chunked", head):
            while not body.endswith(b"0\r\n\r\n"):
                part = connection.recv(65_536)
                if not part:
                    break
                body += part
            body = b"".join(_chunks(body))
        elif length is not None:
            while len(body) < int(length[1]):
                body += connection.recv(65_536)
            assert len(body) == int(length[1]), body
        else:
            while part := connection.recv(65_536):
                body += part
    except OSError as err:
        return data + f"\r\n({type(err).__name__})".encode()
    return head + b"\r\n\r\n" + body


def _chunks(body: bytes) -> Iterator[bytes]:
    while body:
        size, _, rest = body.partition(b"\r\n")
        yield rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]


def shown(response: bytes) -> str:
    """Return a response without the parts that differ from run to run. The header lines are sorted, as in Go."""
    text = response.decode(errors="replace")
    head, blank, body = text.partition("\r\n\r\n")
    status, *lines = head.split("\r\n")
    text = "\r\n".join([status, *sorted(lines)]) + blank + body
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID", text)
    text = re.sub(r'("?resourceVersion"?: ?")\d+', r"\1N", text)  # in JSON and YAML
    text = re.sub(r"(?m)^(Date|Server|Content-Length): .*\r$", r"\1: …\r", text)  # checked by `exchanged`
    text = re.sub(r'("age"|"continue"): ?"[^"]*"', r"\1:…", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
    text = re.sub(r'"description":"(?:[^"\\]|\\.)*"', '"description":"…"', text)  # descriptions of table columns
    return re.sub(r'("cells":\["a",\d+),"[^"]*"', r'\1,"AGE"', text)


def record(directory: Path, assets: Path) -> None:
    """Record the responses of a kube-apiserver."""
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import real_server

    with real_server(directory, assets) as server:
        RESPONSES.write_text(json.dumps(responses(Api(server.kubeconfig)), indent=1, ensure_ascii=False) + "\n")


def responses(api: Any) -> dict[str, str]:
    """Return the responses of a server. `api` is an Api of tests.e2e.kubectl."""
    host, port = api.url.removeprefix("https://").split(":")
    return exchanged(host, int(port), api.tls, api.token)
