"""Hostile input of authenticated clients. The oracle is its cost for other clients and the server's memory.

    python -m tests.runtime.apiserver.hostile --seconds 1800 --seed 1

A server runs in a separate process. One client sends cases that are drawn from the seed: very large objects, kinds
whose schemas have defaults, rules and patterns, policies, YAML, patches, and webhooks whose responses have any type and
size. Another client continuously reads a namespace. A case fails if the other client waits longer than --patience (in
CPU seconds of the server), if the server's memory grows by more than --memory, if a response or its head is longer than
upstream's limits, or if the server returns an internal error or no response.

In the default suite the same cases are sent in process, at a hundredth of the size, and allocated bytes are counted.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import gzip
import http.client
import http.server
import json
import os
import random
import ssl
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kcm.runtime.apiserver.process.launch import EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.e2e.real_server import write_keys

LARGEST_BODY = 3 * 1024 * 1024
LONGEST_HEAD, LONGEST_ANSWER = 16 * 1024, 24 * 1024 * 1024  # bytes; the error of a failed patch quotes it twice
JSON, YAML, MERGE = "application/json", "application/yaml", "application/merge-patch+json"
JSON_PATCH, STRATEGIC, APPLY = (
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
ADMISSION, DEFINITIONS = (
    "/apis/admissionregistration.k8s.io/v1",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)
CORE = "/api/v1/namespaces/default"
THINGS = "/apis/hostile.example.com/v1/namespaces/default/things"


class Sent(NamedTuple):
    method: str
    path: str
    body: bytes
    type: str = JSON


def encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Cases:
    """Generator of cases. `size` is the number of elements of large collections."""

    def __init__(self, seed: int, *, size: int, hook: str = "", authority: bytes = b"") -> None:
        """Create the generator. `hook` is the URL of a webhook whose path selects its response, or ""."""
        self.chance, self._size = random.Random(seed), size
        self._hook, self._authority = hook, authority
        self._number = 0

    def next(self) -> tuple[str, list[Sent]]:
        """Return the name of the next case, and its requests."""
        kinds = [self._object, self._kind, self._yaml, self._patches, self._policy, self._expressions, self._fields]
        if self._hook:
            kinds.append(self._webhook)
        self._number += 1
        chosen = self.chance.choice(kinds)
        detail, sent = chosen()
        return f"{self._number} {chosen.__name__.strip('_')} {detail}", [
            each for each in sent if len(each.body) <= LARGEST_BODY
        ]

    def _many(self) -> int:
        return max(1, int(self._size * self.chance.choice((0.01, 0.1, 0.5, 1.0))))

    def _text(self, length: int) -> str:
        return self.chance.choice(("x", "!", "é", '"', "\n", "A", "1", "\x01")) * length

    def _name(self) -> str:
        return f"h{self._number}-{self.chance.randrange(10**6)}"

    def _pod(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self._name(), "labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }

    # --- cases

    def _object(self) -> tuple[str, list[Sent]]:
        """Return a case with one very large field in an object of a built-in kind."""
        many, chance = self._many(), self.chance
        element: Any = chance.choice(
            ({}, {"name": "a"}, {"name": "!"}, {"name": "A", "value": "x"}, {"ip": "x"}, {"key": "!"}, "!", None, 1, [])
        )
        pod = self._pod()
        of_container = ("env", "envFrom", "ports", "volumeMounts", "args", "volumeDevices", "resizePolicy")
        of_spec = (
            *("containers", "initContainers", "volumes", "tolerations", "imagePullSecrets", "hostAliases"),
            *("readinessGates", "topologySpreadConstraints", "resourceClaims", "schedulingGates"),
        )
        of_metadata = ("finalizers", "ownerReferences", "managedFields", "labels", "annotations")
        field = chance.choice((*of_container, *of_spec, *of_metadata, "data", "rules", "subsets", "webhooks"))
        listed = [element] * many if chance.random() < 0.7 else [{"name": f"n{number}"} for number in range(many)]
        mapped = {f"{chance.choice(('k', '!', 'a/b/'))}{number}": "v" for number in range(many)}
        if field in ("labels", "annotations"):
            pod["metadata"][field] = mapped
        elif field in of_metadata:
            pod["metadata"][field] = listed
        elif field in of_container:
            pod["spec"]["containers"][0][field] = listed
        elif field in of_spec:
            pod["spec"][field] = listed
        else:
            named = {"metadata": {"name": self._name()}}
            path, body = {
                "data": (f"{CORE}/configmaps", {**named, "data": mapped}),
                "rules": ("/apis/rbac.authorization.k8s.io/v1/clusterroles", {**named, "rules": listed}),
                "subsets": (f"{CORE}/endpoints", {**named, "subsets": [{"addresses": listed, "ports": listed[:50]}]}),
                "webhooks": (f"{ADMISSION}/validatingwebhookconfigurations", {**named, "webhooks": listed}),
            }[field]
            strict = chance.choice(("", "?fieldValidation=Strict"))
            return f"{field} of {many}", [Sent("POST", path + strict, encoded(body))]
        path = f"{CORE}/pods/{pod['metadata']['name']}"
        strategic = {"spec": {"containers": [{"name": f"c{number}", "image": "i"} for number in range(many)]}}
        return f"{field} of {many} {element!r:.20}", [
            Sent("POST", f"{CORE}/pods", encoded(pod)),
            Sent("PATCH", path, encoded({"metadata": pod["metadata"], "spec": pod["spec"]}), STRATEGIC),
            Sent("PATCH", f"{path}?fieldManager=h&force=true", encoded(pod), APPLY),
            Sent("PATCH", path, encoded(strategic), STRATEGIC),
            Sent("DELETE", path, b'{"gracePeriodSeconds":0}'),
        ]

    def _fields(self) -> tuple[str, list[Sent]]:
        """Return a case with unknown, deep, long or duplicate fields."""
        many, pod = self._many(), self._pod()
        form = self.chance.choice(("unknown", "long", "deep", "twice", "below a long name"))
        path = f"{CORE}/pods?fieldValidation={self.chance.choice(('Strict', 'Warn', 'Ignore'))}"
        if form == "twice":
            body = encoded(pod)[:-1] + b',"metadata":{}' * many + b"}"
            return f"{form} {many}", [Sent("POST", path, body)]
        if form == "deep":
            depth = self.chance.choice((150, 250, 900, 5_000, 50_000))
            body = encoded(pod)[:-1] + b',"x":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
            return f"{form} {depth}", [Sent("POST", path, body)]
        if form == "unknown":
            pod["spec"] |= {f"unknown{number}": 1 for number in range(many)}
        elif form == "long":
            pod["spec"] |= {self._text(2_000) + str(number): 1 for number in range(max(1, many // 200))}
        else:
            pod["spec"][self._text(10 * self._size)] = [{f"u{number}": {}} for number in range(many)]
        return f"{form} {many}", [Sent("POST", path, encoded(pod))]

    def _schema(self, depth: int = 0) -> dict[str, Any]:
        chance = self.chance
        kind = chance.choice(("string", "integer", "object", "array", "array", "map") if depth < 4 else ("string",))
        if kind == "string":
            schema: dict[str, Any] = {"type": "string"}
            if chance.random() < 0.2:
                schema["pattern"] = chance.choice(("^(a+)+$", "(x*)*y", "(a?){50}a{50}"))
            elif chance.random() < 0.6:
                schema["default"] = "x" * chance.choice((1, 100, self._size))
            if chance.random() < 0.1:
                schema |= {
                    "maxLength": 1000,
                    "x-kubernetes-validations": [{"rule": "self.matches('(x*)*y') || self.size() >= 0"}],
                }
                schema.pop("default", None)
            return schema
        if kind == "integer":
            return {"type": "integer", "default": 1, "maximum": chance.choice((1, 10))}
        if kind == "array":
            items = self._schema(depth + 1)
            schema = {"type": "array", "items": items}
            if items["type"] == "object" and not items.get("required") and chance.random() < 0.5:
                schema["default"] = [{}] * 50
            elif items["type"] == "integer":
                schema["maxItems"] = 600
                if depth < 2 and chance.random() < 0.5:
                    schema["x-kubernetes-validations"] = [{"rule": "self.all(x, self.exists(y, x == y))"}]
                elif chance.random() < 0.3:
                    schema["x-kubernetes-list-type"] = "set"
            return schema
        if kind == "map":
            return {"type": "object", "additionalProperties": self._schema(depth + 1)}
        fields = {f"f{number}": self._schema(depth + 1) for number in range(chance.randrange(1, 5))}
        schema = {"type": "object", "properties": fields}
        if chance.random() < 0.2:
            schema["required"] = ["f0", "missing"]
        return schema

    def _value(self, schema: dict[str, Any], budget: int) -> Any:
        chance = self.chance
        if chance.random() < 0.03:
            return chance.choice((None, 1, "x", [], {}, True))
        match schema.get("type"):
            case "string":
                return self._text(chance.choice((0, 1, min(budget, 1000))))
            case "integer":
                return chance.choice((0, 5, 100))
            case "array":
                value = self._value(schema["items"], budget // 4)
                return [value] * min(max(1, budget // (1 + len(encoded(value)))), self._many())
        if "additionalProperties" in schema:
            value = self._value(schema["additionalProperties"], budget // 4)
            return {f"k{n}": value for n in range(min(max(1, budget // (8 + len(encoded(value)))), self._many()))}
        fields = schema.get("properties") or {}
        return {name: self._value(each, budget // max(1, len(fields))) for name, each in fields.items()}

    def _kind(self) -> tuple[str, list[Sent]]:
        """Return a case with a custom kind and objects that defaults make larger."""
        spec = {"type": "object", "properties": {"a": self._schema(), "b": self._schema()}}
        schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
        names = {"plural": "things", "kind": "Thing"}
        versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
        definition = {
            "metadata": {"name": "things.hostile.example.com"},
            "spec": {"group": "hostile.example.com", "scope": "Namespaced", "names": names, "versions": versions},
        }
        thing = {"apiVersion": "hostile.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
        sent = [Sent("POST", DEFINITIONS, encoded(definition))]
        for _ in range(3):
            body = {**thing, "spec": self._value(spec, 8 * self._size)}
            sent.append(Sent("POST", THINGS, encoded(body)))
            sent.append(Sent("PATCH", f"{THINGS}/t", encoded({"spec": body["spec"]}), MERGE))
        sent.append(Sent("PATCH", f"{THINGS}/t?fieldManager=h&force=true", encoded(body), APPLY))
        sent += [Sent("GET", THINGS, b""), Sent("DELETE", f"{DEFINITIONS}/things.hostile.example.com", b"")]
        return "", sent

    def _yaml(self) -> tuple[str, list[Sent]]:
        many = self._many()
        form = self.chance.choice(
            ("base 60", "digits", "nested", "dashes", "aliases", "merges", "twice", "keys", "text", "tags", "quoted")
        )
        bodies = {
            "base 60": "a: 1" + ":59" * (10 * many),
            "digits": "a: " + "9" * (10 * many),
            "nested": "a: " + "[" * many,
            "dashes": "- " * many + "a",
            "aliases": "\n".join(
                ["a0: &a0 x", *(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))]
            ),
            "merges": "\n".join(
                [
                    f"a0: &a0 {{{', '.join(f'k{i}: v' for i in range(min(many, 2_000)))}}}",
                    *(f"a{i}: {{<<: *a0, x: {i}}}" for i in range(min(many, 2_000))),
                ]
            ),
            "twice": "a: 1\n" * many,
            "keys": "\n".join(f"? {i}.5\n: {i}" for i in range(many)),
            "text": "a: |\n" + "  x\n" * many,
            "tags": "\n".join(f"- !!binary aGk{'=' * (i % 3)}" for i in range(min(many, 20_000))),
            "quoted": 'a: "' + "\\x41" * many + '"',
        }
        head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\n" if form not in ("dashes", "tags") else ""
        body = (head + bodies[form]).encode()
        return f"{form} {many}", [
            Sent("POST", f"{CORE}/configmaps", body, YAML),
            Sent("PATCH", f"{CORE}/configmaps/y?fieldManager=h", body, APPLY),
        ]

    def _patches(self) -> tuple[str, list[Sent]]:
        many, name = self._many(), self._name()
        path = f"{CORE}/configmaps/{name}"
        form = self.chance.choice(("copies", "insertions", "tests", "moves", "growing", "long paths"))
        text = "x" * (4 * self._size)
        first = {"metadata": {"name": name}, "data": {"a": text, "b": "y"}}
        annotations = [{"op": "add", "path": "/metadata/annotations", "value": {"a": text[: self._size]}}]
        operations: list[dict[str, Any]] = {
            "copies": [
                {"op": "copy", "from": "/metadata/annotations", "path": f"/metadata/annotations/x{number}"}
                for number in range(40)
            ],
            "insertions": [
                {"op": "add", "path": "/metadata/finalizers", "value": [f"a/{n}" for n in range(many)]},
                *({"op": "add", "path": "/metadata/finalizers/0", "value": "a/b"} for _ in range(min(many, 9_000))),
            ],
            "tests": [{"op": "test", "path": "/data", "value": first["data"]}] * min(many, 50),
            "moves": [{"op": "move", "from": f"/data/{a}", "path": f"/data/{b}"} for a, b in (("a", "b"), ("b", "a"))]
            * min(many, 4_000),
            "growing": [{"op": "add", "path": f"/data/g{n}", "value": text} for n in range(8)],
            "long paths": [{"op": "add", "path": f"/data/{'k' * self._size}", "value": "v"}] * min(many, 20),
        }[form]
        return f"{form} {many}", [
            Sent("POST", f"{CORE}/configmaps", encoded(first)),
            Sent("PATCH", path, encoded([*annotations, *operations]), JSON_PATCH),
            *(Sent("PATCH", path, encoded({"data": {f"m{n}": text}}), MERGE) for n in range(3)),
            Sent("PATCH", f"{path}?fieldManager=h", encoded({"kind": "ConfigMap", "apiVersion": "v1", **first}), APPLY),
            Sent("DELETE", path, b""),
        ]

    def _expression(self) -> str:
        chance = self.chance
        long = max(3, min(self._size // 300, 300))
        return chance.choice(
            (
                f"lists.range({long}).all(x, lists.range({long}).all(y, x + y >= 0))",
                f"lists.range({long}).map(x, lists.range({long})).size() > 0",
                f"object.data.all(k, lists.range({long}).exists(x, object.data[k].matches('(x*)*y') || x > 1))",
                f"lists.range({3 * long}).map(x, string(x)).join(',').split(',').size() > {long}",
                "['x'].map(a, a + a)" + "".join(f".map(v{n}, v{n} + v{n})" for n in range(40)) + ".size() > 0",
                f"lists.range({3 * long}).sort() == lists.range({3 * long}).distinct()",
                "object.metadata.name.replace('', object.metadata.name).size() > 0",
                f"'%s'.format([lists.range({10 * long})]).size() > 0",
                f"lists.range({long}).exists_one(x, authorizer.group('').resource('pods').check('get').allowed())",
                "[" + ",".join(["1"] * min(40_000, self._size)) + "].size() > 0",
                "(" * 300 + "1" + ")" * 300 + " == 1",
                " || ".join(["object.metadata.name == 'x'"] * min(2_000, self._size)),
            )
        )

    def _policy(self) -> tuple[str, list[Sent]]:
        """Return a case with a policy for ConfigMaps whose expressions have the maximum permitted cost."""
        rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["configmaps"]}
        expression = self._expression()
        mutates = self.chance.random() < 0.3
        spec: dict[str, Any] = {"matchConstraints": {"resourceRules": [rule]}}
        if mutates:
            changed = self.chance.choice(
                (
                    f"Object{{data: {{'made': string({expression})}}}}",
                    "Object{data: {'made': lists.range(20000).map(x, 'xxxxxxxxxxxxxxxxxxxx').join('')}}",
                )
            )
            made = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": changed}}
            spec |= {"mutations": [made] * self.chance.choice((1, 5)), "reinvocationPolicy": "IfNeeded"}
        else:
            spec["validations"] = [{"expression": f"{expression} || {n} > 0"} for n in range(10)]
            spec["variables"] = [{"name": "v", "expression": expression}]
        if self.chance.random() < 0.3:
            spec["matchConditions"] = [{"name": "c", "expression": expression}]
        kind = "mutating" if mutates else "validating"
        binding: dict[str, Any] = {"policyName": "p"} | ({} if mutates else {"validationActions": ["Deny", "Audit"]})
        data = {"a": "x" * self._size, "b": "y"}
        return f"{kind} {expression[:50]}", [
            Sent("POST", f"{ADMISSION}/{kind}admissionpolicies", encoded({"metadata": {"name": "p"}, "spec": spec})),
            Sent(
                "POST",
                f"{ADMISSION}/{kind}admissionpolicybindings",
                encoded({"metadata": {"name": "b"}, "spec": binding}),
            ),
            Sent("POST", f"{CORE}/configmaps", encoded({"metadata": {"name": self._name()}, "data": data})),
            Sent("DELETE", f"{ADMISSION}/{kind}admissionpolicybindings/b", b""),
            Sent("DELETE", f"{ADMISSION}/{kind}admissionpolicies/p", b""),
        ]

    def _expressions(self) -> tuple[str, list[Sent]]:
        """Return a case with many or long expressions that are only compiled."""
        text = self.chance.choice(
            ("[" + ",".join(["a"] * min(49_000, self._size)) + "]", "object.spec.a == 1", "!!", "((((", "1 + 'a'")
        )
        number = max(1, min(2_500_000 // (len(text) + 20), self._many()))
        spec = {"matchConstraints": {"resourceRules": []}, "validations": [{"expression": text}] * number}
        body = encoded({"metadata": {"name": "e"}, "spec": spec})
        return f"{number} of {len(text)}", [
            Sent("POST", f"{ADMISSION}/validatingadmissionpolicies", body),
            Sent("DELETE", f"{ADMISSION}/validatingadmissionpolicies/e", b""),
        ]

    def _webhook(self) -> tuple[str, list[Sent]]:
        """Return a case with a webhook whose response has random types and sizes."""
        seed = self.chance.randrange(10**9)
        kind = self.chance.choice(("mutating", "validating"))
        rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["secrets"]}
        hook = {
            "name": "h.example.com",
            "clientConfig": {"url": f"{self._hook}/{seed}", "caBundle": base64.b64encode(self._authority).decode()},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 10,
        }
        path = f"{ADMISSION}/{kind}webhookconfigurations"
        return f"{kind} {seed}", [
            Sent("POST", path, encoded({"metadata": {"name": "w"}, "webhooks": [hook]})),
            Sent("POST", f"{CORE}/secrets", encoded({"metadata": {"name": self._name()}})),
            Sent("DELETE", f"{path}/w", b""),
        ]


def hostile_response(seed: int, review: dict[str, Any]) -> tuple[bytes, str]:
    """Return the body of a webhook's response, and its Content-Encoding."""
    chance = random.Random(seed)
    junk: list[Any] = [None, True, 1, -1, 1.5, 10**30, "x", "", [], [1], {}, {"a": 1}, "x" * 1_000_000, ["w"] * 50_000]
    patch = [{"op": "add", "path": "/data", "value": {"a": "eA=="}}] * chance.choice((1, 10, 20_000))
    whole = base64.b64encode(encoded(patch)).decode()
    response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": chance.random() < 0.5}
    response |= {"patchType": "JSONPatch", "patch": whole} if chance.random() < 0.4 else {}
    for field in ("status", "warnings", "auditAnnotations", "patch", "patchType", "allowed", "uid"):
        if chance.random() < 0.15:
            response[field] = chance.choice(junk)
    if chance.random() < 0.3:
        status = {"message": "m", "code": chance.choice((0, 99, 200, 404, 599, 999, 1000, 2**31, "x"))}
        response |= {"allowed": False, "status": status | {"details": chance.choice(junk)}}
    body = encoded({**review, "response": chance.choice((response,) * 9 + tuple(junk))})
    form = chance.random()
    if form < 0.1:
        packer, part = zlib.compressobj(1, wbits=31), bytes(1_000_000)
        return b"".join(packer.compress(part) for _ in range(200)) + packer.flush(), "gzip"
    if form < 0.2:
        return b" " * 12_000_000, ""
    if form < 0.3:
        return body[: len(body) // 2], ""
    if form < 0.4:
        return gzip.compress(body, 1), "gzip"
    return body, ""


@contextlib.contextmanager
def answering(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Serve a webhook on loopback, and yield its URL and the PEM of its certificate."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body, encoding = hostile_response(int(urlsplit(self.path).path.strip("/")), review)
            with contextlib.suppress(OSError):
                self.send_response(200)
                self.send_header("Content-Type", JSON)
                self.send_header("Content-Length", str(len(body)))
                if encoding:
                    self.send_header("Content-Encoding", encoding)
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            """Log nothing."""

    write_keys(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "apiserver.crt", directory / "apiserver.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}", (directory / "apiserver.crt").read_bytes()
    finally:
        server.shutdown()
        server.server_close()


http.client._MAXHEADERS = 10_000  # type: ignore[attr-defined]  # of warnings there may be more than a hundred, as upstream


class Client:
    """Client with one connection, which is reopened after an error."""

    def __init__(self, api: Api) -> None:
        parts = urlsplit(api.url)
        self._open = lambda: http.client.HTTPSConnection(parts.hostname or "", parts.port, context=api.tls, timeout=120)
        self._token = api.token
        self._connection = self._open()

    def send(self, sent: Sent) -> tuple[int, int, bytes]:
        """Send a request, and return status, length of the head, and body."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": sent.type}
        try:
            self._connection.request(sent.method, sent.path, sent.body or None, headers)
            response = self._connection.getresponse()
            body = response.read()
        except Exception:
            self._connection.close()
            self._connection = self._open()
            raise
        return response.status, sum(len(name) + len(value) + 4 for name, value in response.headers.items()), body

    def close(self) -> None:
        self._connection.close()


class Bystander(threading.Thread):
    """Client that continuously reads a namespace.

    Its waiting time is measured in CPU seconds of the server, because the wall time depends on other programs on the
    machine.
    """

    def __init__(self, api: Api, pid: int) -> None:
        super().__init__(daemon=True)
        self._client, self._pid, self._waited = Client(api), pid, 0.0
        self.waits: list[float] = []
        self._is_over = False

    def run(self) -> None:
        while not self._is_over:
            began = processor(self._pid)
            with contextlib.suppress(Exception):
                self._client.send(Sent("GET", "/api/v1/namespaces/default", b""))
            waited = processor(self._pid) - began
            self.waits.append(waited)
            self._waited = max(self._waited, waited)
            time.sleep(0.02)
        self._client.close()

    def stop(self) -> None:
        self._is_over = True

    def worst(self) -> float:
        """Return the longest wait since the last call."""
        waited, self._waited = self._waited, 0.0
        return waited


def processor(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


class Figures(NamedTuple):
    cases: int
    requests: int
    statuses: Counter[int]
    troubles: list[str]
    waits: list[float]
    largest: int


def run(
    seconds: float, *, seed: int, size: int, patience: float, memory: int, directory: Path, tell: Callable[[str], None]
) -> Figures:
    statuses, troubles, largest, requests, number = Counter[int](), list[str](), 0, 0, 0
    with answering(directory) as (url, authority):
        cases = Cases(seed, size=size, hook=url, authority=authority)
        server, client, bystander = _start(directory)
        waits: list[float] = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            name, sent = cases.next()
            number += 1
            before, wrong = resident(server.child.pid), []
            for each in sent:
                requests += 1
                began = time.monotonic()
                try:
                    status, head, body = client.send(each)
                except Exception as err:
                    wrong.append(f"no answer after {time.monotonic() - began:.1f} s: {err!r:.100}")
                    break
                statuses[status] += 1
                if head > LONGEST_HEAD or len(body) > LONGEST_ANSWER:
                    wrong.append(f"head of {head} bytes, body of {len(body)}")
                if b"see the server's log" in body:
                    wrong.append(f"{each.method} {each.path}: {body[:200]!r}")
            waited, after = bystander.worst(), resident(server.child.pid)
            largest = max(largest, after)
            if waited > patience:
                wrong.append(f"another client waited for {waited:.2f} s of the processor")
            if after - before > memory:
                wrong.append(f"memory grew by {(after - before) / 1e6:.0f} MB")
            for trouble in wrong:
                troubles.append(f"case {name}: {trouble}")
                tell(troubles[-1])
            if any("no answer" in trouble for trouble in wrong) or after > 4 * memory:
                waits += bystander.waits
                _stop(server, client, bystander)
                server, client, bystander = _start(directory)
        _stop(server, client, bystander)
    return Figures(number, requests, statuses, troubles, sorted([*waits, *bystander.waits]), largest)


def _start(directory: Path) -> tuple[EmbeddedServer, Client, Bystander]:
    server = launch(ServerSettings(directory=Path(tempfile.mkdtemp(dir=directory)), in_memory=True, quiet=True))
    api = Api(server.kubeconfig)
    bystander = Bystander(api, server.child.pid)
    bystander.start()
    return server, Client(api), bystander


def _stop(server: EmbeddedServer, client: Client, bystander: Bystander) -> None:
    # Stop the server first: this ends a request for which the bystander waits.
    bystander.stop()
    server.stop()
    bystander.join(timeout=10.0)
    client.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=60_000, help="elements of what there is much of")
    parser.add_argument(
        "--patience", type=float, default=3.0, help="seconds of the processor that another client may wait"
    )
    parser.add_argument("--memory", type=int, default=500_000_000, help="bytes that one case may cost")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = run(
            arguments.seconds,
            seed=arguments.seed,
            size=arguments.size,
            patience=arguments.patience,
            memory=arguments.memory,
            directory=Path(directory),
            tell=lambda line: print(line, flush=True),
        )
    print(f"{found.cases} cases, {found.requests} requests, statuses {dict(sorted(found.statuses.items()))}")
    waits = [found.waits[int(part * (len(found.waits) - 1))] for part in (0.5, 0.99, 0.999, 1.0)]
    shown = ", ".join(f"{1000 * wait:.0f}" for wait in waits)
    print(
        f"another client read {len(found.waits)} times, and waited {shown} ms of the processor (p50, p99, p99.9, max)"
    )
    print(f"the server had {found.largest / 1e6:.0f} MB at most")
    print(f"{len(found.troubles)} promises were broken")
    return 1 if found.troubles else 0


if __name__ == "__main__":
    sys.exit(main())
