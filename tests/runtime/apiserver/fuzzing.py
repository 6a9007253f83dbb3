"""Random requests to an API server in this process, and invariants that no request may violate.

    python -m tests.runtime.apiserver.fuzzing --requests 1000000 --seed 1

Most paths are served, most fields have the right types, and most patches and updates start from stored objects, so that
requests pass the first checks. The server is replaced by an empty one from time to time.
"""

from __future__ import annotations

import argparse
import base64
import copy
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson

from kcm.protocols.messages.commands import PatchType
from kcm.protocols.objects import decode_object
from kcm.runtime.apiserver.core.identifiers import Identifiers
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import SUBRESOURCES
from kcm.runtime.apiserver.registry.users import ADMIN, User
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.storage.store import MemoryStore
from kcm.runtime.apiserver.storage.watches import CacheWatcher
from kcm.runtime.client.api import Request, Response
from kcm.runtime.schema.api_types import META, Field, built_in_types

PER_SERVER = 3000  # requests
LONGEST = 5.0  # CPU seconds for one request
DEEPEST = 7
NAMES = ("a", "b", "web", "default", "things.example.com", "kube-system", "n-1", "A b", "x" * 260, "..", "%2e", "é")
TEXTS = (
    *("", "a", "b", "web", "default", "IfNotPresent", "Always", "Never", "Exists", "Equal", "NoExecute", "ClusterIP"),
    *("ClusterFirst", "True", "False", "Delete", "Retain", "example.com/x", "1", "0", "10.0.0.1", "10.0.0.0/24", "::1"),
    *("TCP", "UDP", "Allow", "nginx:1", "rbac.authorization.k8s.io", "ClusterRole", "ServiceAccount", "Foreground"),
    *("example.com", "things", "Thing", "v1", "Namespaced", "object.spec.x > 1", "* * * * *", "\0", "ä" * 70, "-1"),
)
TIMES = ("2020-01-01T00:00:00Z", "2001-09-09T01:46:40.123456Z", "", "yesterday", "2026-13-45T99:99:99Z", None)
QUANTITIES = ("1", "100m", "1Gi", 1, 0.5, "-1", "1e3", "1ee3", "", "9" * 30)
INTEGERS = (0, 1, -1, 2, 3, 80, 443, 30000, 65535, 65536, 2**31 - 1, 2**31, 2**63, -(2**63), 10**30)
QUERIES: Mapping[str, tuple[str, ...]] = {
    "dryRun": ("All", "", "Some"),
    "fieldManager": ("tests", "", "x" * 200, "\n"),
    "force": ("true", "false", "x"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "limit": ("1", "2", "0", "-1", "x", "99999999999999999999"),
    "resourceVersion": ("0", "1", "5", "999999", "x", "-1"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "labelSelector": ("a=b", "a in (b,c)", "!a", "a", "a>1", "((", "é", "a=b,c!=d"),
    "fieldSelector": ("metadata.name=a", "spec.nodeName=", "status.phase!=Running", "x=y", "metadata.name"),
    "continue": ("x", "", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0"),
    "propagationPolicy": ("Foreground", "Background", "Orphan", "x"),
    "gracePeriodSeconds": ("0", "30", "-1", "x"),
    "orphanDependents": ("true", "false"),
    "timeoutSeconds": ("0", "1", "x"),
    "sendInitialEvents": ("true", "false"),
    "allowWatchBookmarks": ("true", "1", "x"),
    "pretty": ("true",),
    "nothing": ("x",),
}
METHODS = ("GET", "POST", "POST", "PUT", "PUT", "PATCH", "PATCH", "DELETE")
# Errors of 500 and above that kube-apiserver returns too, by a part of their text.
AS_UPSTREAM = (
    "resourceVersion should not be set on objects to be created",
    "Too large resource version",
    "the pods of this cluster run no containers",
    "failed to create typed patch object",
    "duplicate nodePort",
    "failed to allocate",
    "unsupported role reference kind",
    "resourceVersion: Invalid value",
)


class BrokenPromiseError(Exception):
    """A request violated an invariant. The text contains the request and the violation."""


class Clock:
    def __init__(self) -> None:
        self.time = 1_000_000_000.0

    def now(self) -> float:
        return self.time


class Fuzzer:
    """A server and the requests to it, which are drawn from `chance`."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.clock = chance, Clock()
        numbers = iter(range(1 << 60))
        self.server = ApiServer(
            store=MemoryStore(),
            clock=self.clock,
            identifiers=Identifiers(lambda: f"uid-{next(numbers)}", lambda: f"{next(numbers):05d}"[-5:]),
        )
        self.types = built_in_types()
        self.wordiness = 0.0  # fraction of optional fields that are set
        self.watches: list[CacheWatcher] = []

    # --- requests

    def any_of(self, *choices: Any) -> Any:
        return choices[int(self.chance.random() * len(choices))]

    def seldom(self, part: float = 0.1) -> bool:
        return self.chance.random() < part

    def request(self) -> tuple[Request, User]:
        definition = self.any_of(*self.server.registry)
        self.wordiness = self.any_of(0.0, 0.0, 0.05, 0.3)
        there = bool(self.server._state.collection(definition.storage).records)
        method = self.any_of(*METHODS) if there else self.any_of("POST", "POST", "POST", "PATCH", "GET")
        if self.seldom(0.02):
            method = self.any_of("HEAD", "OPTIONS", "BREW", "POST", "PUT", "DELETE")
        namespace = self.any_of("default", "default", "kube-system", *NAMES) if definition.namespaced else ""
        stored = self.stored(definition)
        name = self.any_of(*NAMES) if stored is None or self.seldom() else stored["metadata"]["name"]
        if stored is not None and definition.namespaced and not self.seldom():
            namespace = stored["metadata"].get("namespace", namespace)
        subresource = ""
        if there and definition.subresources and self.seldom(0.25):
            subresource = self.any_of(*definition.subresources)
            verbs = SUBRESOURCES[subresource].verbs if subresource in SUBRESOURCES else ("get",)
            method = {"create": "POST", "get": "GET", "update": "PUT", "patch": "PATCH"}.get(
                self.any_of(*verbs), method
            )
        if self.seldom(0.01):
            subresource = self.any_of("status", "scale", "binding", "exec", "log", "x/y")
        on_collection = not subresource and (method == "POST" or (method == "GET" and self.seldom(0.5)))
        path = "/api/v1" if not definition.group else f"/apis/{definition.group}/{definition.version}"
        if definition.namespaced and not (on_collection and method == "GET" and self.seldom(0.3)):
            path += f"/namespaces/{namespace}"
        path += f"/{definition.plural}"
        if not on_collection and not (method == "DELETE" and self.seldom(0.05)):
            path += f"/{name}" + (f"/{subresource}" if subresource else "")
        if self.seldom(0.01):
            path = self.broken_path(path)
        query = {key: self.any_of(*QUERIES[key]) for key in QUERIES if self.seldom(0.04)}
        type_, body = self.body(method, definition, subresource, stored, name, namespace)
        if type_ == PatchType.APPLY and not self.seldom():
            query["fieldManager"] = self.any_of("tests", "others")
        user = ADMIN if self.seldom(0.9) else User("somebody", groups=("system:authenticated",))
        return Request(method=method, path=path, query=query, body=body, content_type=type_), user

    def broken_path(self, path: str) -> str:
        parts = path.split("/")
        at = self.chance.randrange(len(parts))
        parts[at] = self.any_of(*NAMES, "", "api", "apis", "v1", "namespaces", "pods")
        return "/".join(parts)

    def stored(self, definition: ResourceDefinition) -> Any:
        """Return a random stored object of the kind, or None if none is stored."""
        records = self.server._state.collection(definition.storage).records
        if not records:
            return None
        return decode_object(records[self.any_of(*list(records)[:20])].raw)

    def body(
        self, method: str, definition: ResourceDefinition, subresource: str, stored: Any, name: str, namespace: str
    ) -> tuple[str, bytes]:
        if method == "GET":
            return "", b""
        if self.seldom(0.01):
            return self.any_of("application/json", "text/plain", ""), self.any_of(
                b"", b"{", b"[]", b"null", b"7", b"\xff"
            )
        if method == "DELETE":
            options: Any = self.struct(f"{META}.DeleteOptions", 0) if self.seldom(0.5) else b""
            return "application/json", options if isinstance(options, bytes) else encoded(options)
        if method == "PATCH":
            return self.patch(definition, subresource, stored)
        if stored is not None and method == "PUT" and not self.seldom():
            changed = self.changed(stored)
            if definition.from_storage is not None and isinstance(changed, dict):
                changed["apiVersion"] = definition.api_version
            return "application/json", encoded(changed)
        obj = self.fresh(definition, subresource)
        meta = obj.setdefault("metadata", {})
        if isinstance(meta, dict) and not self.seldom():
            meta.pop("resourceVersion", None)
            meta["name"] = name if method == "PUT" or self.seldom(0.5) else self.any_of(*NAMES[:7])
            if namespace:
                meta["namespace"] = namespace
        return "application/json", encoded(obj)

    def fresh(self, definition: ResourceDefinition, subresource: str) -> Any:
        kind = SUBRESOURCES[subresource].kind if subresource in SUBRESOURCES else None
        group, version, name = kind or (definition.group, definition.version, definition.kind)
        type_ = self.types.name_of(group, version, name)
        obj = self.struct(type_, 0) if type_ is not None else {"spec": self.anything(3), "status": self.anything(2)}
        if not self.seldom(0.03):
            obj["kind"], obj["apiVersion"] = name, f"{group}/{version}" if group else version
        return obj

    def patch(self, definition: ResourceDefinition, subresource: str, stored: Any) -> tuple[str, bytes]:
        type_ = self.any_of(*PatchType)
        if type_ == PatchType.JSON:
            return type_, encoded([self.operation(stored) for _ in range(self.chance.randrange(4))])
        patch = self.fresh(definition, subresource)
        if type_ != PatchType.APPLY:
            patch = {key: value for key, value in patch.items() if self.seldom(0.6)}
            if self.seldom(0.2):
                self.put_directive(patch)
        elif stored is not None and not self.seldom(0.3):
            patch = {"kind": definition.kind, "apiVersion": definition.api_version, **patch}
            patch["metadata"] = {"name": stored["metadata"]["name"], "labels": {"a": self.any_of("b", "c")}}
        return type_, encoded(patch)

    def put_directive(self, value: Any) -> None:
        for inner in value.values() if isinstance(value, dict) else ():
            if isinstance(inner, dict) and self.seldom(0.5):
                inner[
                    self.any_of("$patch", "$retainKeys", "$setElementOrder/x", "$deleteFromPrimitiveList/finalizers")
                ] = self.any_of("delete", "replace", "merge", "x", [], ["a"], None)
            self.put_directive(inner)

    def operation(self, stored: Any) -> Any:
        paths = ["", "/", "/metadata/labels/a", "/spec", "/x/y", "/metadata/finalizers/-", *pointers(stored or {})]
        operation: dict[str, Any] = {"op": self.any_of("add", "remove", "replace", "test", "move", "copy", "x")}
        operation["path"] = self.any_of(*paths)
        if self.seldom(0.7):
            operation["value"] = self.anything(2)
        if self.seldom(0.5):
            operation["from"] = self.any_of(*paths)
        return operation

    def changed(self, obj: Any) -> Any:
        """Return a copy of the object in which a random part is replaced or removed."""
        for _ in range(self.chance.randrange(3)):
            inner = obj
            while isinstance(inner, (dict, list)) and inner:
                key = self.any_of(*inner) if isinstance(inner, dict) else self.chance.randrange(len(inner))
                if not isinstance(inner[key], (dict, list)) or self.seldom(0.3):
                    inner[key] = self.anything(2)
                    if self.seldom(0.2):
                        del inner[key]
                    break
                inner = inner[key]
        if self.seldom(0.5) and isinstance(obj.get("metadata"), dict):
            obj["metadata"].pop("resourceVersion", None)
        return obj

    def struct(self, name: str, depth: int) -> dict[str, Any]:
        """Return an object of an API type with its required fields and few others."""
        type_ = self.types.find(name)
        if type_ is None or depth > DEEPEST:
            return {}
        return {
            field.name: self.value(field, depth)
            for field in type_.fields.values()
            if (field.required and not self.seldom(0.02))
            or self.seldom(self.wordiness)
            or (depth == 0 and field.name in ("spec", "data", "roleRef"))
        }

    def value(self, field: Field, depth: int) -> Any:
        if self.seldom(0.005):
            return self.anything(2)
        if field.form == "list":
            return [self.element(field, depth) for _ in range(self.any_of(0, 1, 1, 2))]
        if field.form == "map":
            return {self.any_of(*TEXTS): self.element(field, depth) for _ in range(self.any_of(0, 1, 2))}
        if field.form == "map of lists":
            return {self.any_of(*TEXTS): [self.element(field, depth)] for _ in range(self.any_of(0, 1))}
        return self.element(field, depth)

    def element(self, field: Field, depth: int) -> Any:
        match field.kind:
            case "struct":
                return self.struct(field.type, depth + 1)
            case "string":
                return self.any_of(*TEXTS)
            case "bytes":
                return self.any_of(base64.b64encode(b"ab").decode(), "", "?")
            case "boolean":
                return self.seldom(0.5)
            case "int32" | "int64":
                return self.any_of(*INTEGERS[:8]) if not self.seldom(0.1) else self.any_of(*INTEGERS)
            case "double":
                return self.any_of(0.5, 1, -1e300)
            case "time" | "micro_time":
                return self.any_of(*TIMES)
            case "quantity":
                return self.any_of(*QUANTITIES)
            case "int_or_string":
                return self.any_of(80, "http", "10%", "-1%", "", 0)
            case _:
                return self.anything(2)

    def anything(self, depth: int) -> Any:
        """Return a random JSON value."""
        if depth > 0 and self.seldom(0.4):
            if self.seldom(0.5):
                return [self.anything(depth - 1) for _ in range(self.chance.randrange(3))]
            return {self.any_of(*TEXTS): self.anything(depth - 1) for _ in range(self.chance.randrange(3))}
        return self.any_of(None, True, False, 0.5, *INTEGERS[:12], *TEXTS)

    # --- checks

    def step(self) -> Response | None:
        """Send a request and return the response, or None for a watch. Raises BrokenPromiseError."""
        request, user = self.request()
        begun = time.process_time()
        try:
            response = self.watch(request) if self.seldom(0.03) else self.server.handle(request, user=user)
            if self.seldom(0.005):
                self.clock.time += self.any_of(1.0, 30.0, 400.0, 4000.0)
                self.server.tick(self.clock.time)
        except Exception as err:
            raise BrokenPromiseError(f"{shown(request)} raised {err!r}") from err
        if self.server._state.staged:
            raise BrokenPromiseError(f"{shown(request)} left behind what it staged")
        if time.process_time() - begun > LONGEST:
            raise BrokenPromiseError(f"{shown(request)} took {time.process_time() - begun:.1f} s")
        if response is not None:
            if response.status >= 500 and not any(text.encode() in response.body for text in AS_UPSTREAM):
                raise BrokenPromiseError(f"{shown(request)}: {response.status} {response.body[:500]!r}")
            orjson.loads(response.body)
        return response

    def watch(self, request: Request) -> Response | None:
        """Start a watch. A few watches are kept open to check their events."""
        watch = self.server.watch(request, deliver=check_lines, end=lambda _: None)
        if isinstance(watch, Response):
            return watch
        self.watches.append(watch)
        if len(self.watches) > 5:
            self.watches.pop(0).cancel()
        return None


def check_lines(lines: bytes) -> None:
    for line in lines.splitlines():
        assert orjson.loads(line)["type"] in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"), line


def encoded(value: Any) -> bytes:
    import json

    return json.dumps(copy.deepcopy(value), ensure_ascii=False).encode("utf-8", "surrogatepass")


def pointers(value: Any, at: str = "") -> list[str]:
    """Return JSON pointers to some of the values inside a value."""
    found: list[str] = []
    for key, inner in value.items() if isinstance(value, dict) else ():
        here = f"{at}/{str(key).replace('~', '~0').replace('/', '~1')}"
        found += [here, *pointers(inner, here)]
    for i, inner in enumerate(value) if isinstance(value, list) else ():
        found += [f"{at}/{i}", *pointers(inner, f"{at}/{i}")]
    return found


def shown(request: Request) -> str:
    query = f"?{dict(request.query)}" if request.query else ""
    return f"{request.method} {request.path}{query} {request.content_type} {request.body[:2000]!r}"


def run(requests: int, *, seed: int, keep_going: bool = False) -> tuple[Counter[str], list[str]]:
    """Return the number of responses by status, and the violations. Raises BrokenPromiseError unless `keep_going`."""
    counted, troubles = Counter[str](), dict[str, str]()
    fuzzer = Fuzzer(random.Random(seed))
    for number in range(requests):
        if number and number % PER_SERVER == 0:
            fuzzer = Fuzzer(random.Random(f"{seed} {number}"))
        try:
            response = fuzzer.step()
        except BrokenPromiseError as err:
            if not keep_going:
                raise BrokenPromiseError(f"request {number} of seed {seed}: {err}") from err
            place = where(err)
            if place not in troubles:
                troubles[place] = f"request {number} of seed {seed}, {place}: {err}"
                print(troubles[place], file=sys.stderr, flush=True)
            fuzzer = Fuzzer(random.Random(f"{seed} {number} after trouble"))
            continue
        counted["watch" if response is None else str(response.status)] += 1
    return counted, list(troubles.values())


def where(err: BaseException) -> str:
    """Return the line of code that raised the error, so that each problem is reported once."""
    cause = err.__cause__
    while cause is not None and cause.__traceback__ is not None:
        trace = cause.__traceback__
        while trace.tb_next is not None:
            trace = trace.tb_next
        return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return str(err)[:60]


def main() -> int:
    parser = argparse.ArgumentParser(description="Random requests; exit code 1 if one of them breaks a promise.")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    counted, troubles = run(arguments.requests, seed=arguments.seed, keep_going=True)
    print(dict(sorted(counted.items())))
    print(f"{len(troubles)} promises were broken." if troubles else "No promise was broken.")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
