"""Admission policies and their bindings: defaults, rejections, denied requests and changed objects."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.contract import Contract, embedded, real_sender
from tests.runtime.apiserver.contracts.requests import JSON, MERGE, Given, Send

GROUP = "/apis/admissionregistration.k8s.io/v1"
PODS, CONFIGS = ("", "pods"), ("", "configmaps")


class Step(NamedTuple):
    """Request of a scenario. `$ns` in path and body is the namespace of the scenario."""

    method: str
    path: str  # absolute
    body: Any = None
    type: str = JSON
    query: dict[str, str] = {}  # noqa: RUF012 - never changed
    # Text of the response for which the recorder repeats the request, because policies take effect with a delay.
    until: str = ""


def rules(*operations: str, of: tuple[str, str] = CONFIGS) -> dict[str, Any]:
    group, plural = of
    rule = {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations) or ["CREATE"],
        "resources": [plural],
    }
    inside = {"matchLabels": {"kubernetes.io/metadata.name": "$ns"}}
    return {"resourceRules": [rule], "namespaceSelector": inside}


def policy(name: str = "$ns", mutating: bool = False, **spec: Any) -> Step:
    plural = "mutatingadmissionpolicies" if mutating else "validatingadmissionpolicies"
    body = {"metadata": {"name": name}, "spec": {"matchConstraints": rules(), **spec}}
    return Step("POST", f"{GROUP}/{plural}", body)


def binding(name: str = "$ns", of: str = "$ns", mutating: bool = False, **spec: Any) -> Step:
    plural = "mutatingadmissionpolicybindings" if mutating else "validatingadmissionpolicybindings"
    actions = {} if mutating else {"validationActions": ["Deny"]}
    return Step(
        "POST", f"{GROUP}/{plural}", {"metadata": {"name": name}, "spec": {"policyName": of, **actions, **spec}}
    )


CONFIG_MAPS = "/api/v1/namespaces/$ns/configmaps"
DENIED = "denied request"


def config(name: str, until: str = "", labels: dict[str, str] | None = None, **data: str) -> Step:
    meta = {"name": name} | ({} if labels is None else {"labels": labels})
    return Step("POST", CONFIG_MAPS, {"metadata": meta} | ({"data": data} if data else {}), until=until)


def change(name: str, **data: str | None) -> Step:
    return Step("PATCH", f"{CONFIG_MAPS}/{name}", {"data": data}, MERGE)


def changes(*mutations: str, **spec: Any) -> Step:
    """Return a policy with apply configurations and JSON patches."""
    made: list[dict[str, Any]] = []
    for text in mutations:
        is_patch = text.startswith("[")
        part = "jsonPatch" if is_patch else "applyConfiguration"
        made.append({"patchType": "JSONPatch" if is_patch else "ApplyConfiguration", part: {"expression": text}})
    return policy(mutating=True, **{"reinvocationPolicy": "Never", "mutations": made, **spec})


def valid(*expressions: Any) -> list[dict[str, Any]]:
    return [each if isinstance(each, dict) else {"expression": each} for each in expressions]


TRUE = valid("true")
SELECTOR = {"matchLabels": {"a b": "c"}}

WRONG = [
    "['a', object.metadata.name] == []",
    "{'a': 1, 'b': object.data.n} == {}",
    "'%d'.format(['a']) == ''",
    "'%s %s'.format(['a']) == ''",
    "'%s'.format(['a', 'b']) == ''",
    "[1].existsOne(x, x == 1)",
    "duration(5) == duration('5ns')",
    "timestamp('2024-01-01t00:00:00z') == timestamp('2024-01-01T00:00:00Z')",
    "'a'.matches('\\\\C')",
    "int('x') == 1",
    "'a'.find('(') == ''",
    "matches('a', '(')",
    "object[null] == 1",
    "for() == 1",
    "string{} == ''",
    "request.nope == 1",
    "request.namespace.x == 1",
    "authorizer.path('/healthz') == 1",
    "quantity('1').a == 1",
    "object.`a` == 1",
    "type(quantity('1')) == kubernetes.Quantity",
    "object.metadata.name",
    "1" + " + 1" * 251 + " == 1",
]
VALUES = [
    "has(object.data.n.x)",
    "has(object.metadata.name.x)",
    "object.?data.n.x.hasValue()",
    "'%s has %d: %f %e'.format([object.metadata.name, 1, 1234.5, 1.5])",
    "object.data.n in ['1', '2']",
    "dyn(9223372036854775807) == dyn(9223372036854775807.0)",
    "['1.5Gi', '1000m', '1k', '0.5k'].map(q, quantity(q).isInteger())",
    "['mailto:a@b', 'http:', '*', 'http://h#%zz', '1a:b'].map(u, isURL(u))",
    "timestamp('2020-02-29T12:00:00Z').getHours('+25:00')",
    "'hello'.indexOf('l', 9)",
    "'hello hello'.findAll('h*')",
    "(object.data.n == '1' ? object : oldObject).metadata.name",
    "[dyn(1), dyn(2.5)].max()",
    "request.operation + request.kind.kind",
    "namespaceObject.metadata.name == request.namespace",
    "type(object) == map && type(request.dryRun) == bool",
    "semver('v1.2', true).minor()",
    "optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z')).hasValue()",
    "object.data.transformMap(k, v, v + '!')",
]
FAILING = [
    "object.data.n.x == 1",
    "object.data.n + 1 == 2",
    "object.metadata.labels.x == ''",
    "object.data.all(k, object.data[k] < 1)",
    "object.data.n.all(c, true)",
    "int(object.data.n + 'x') == 1",
    "duration(object.metadata.name) == duration('1s')",
]
SHOWN = {"expression": "false", "messageExpression": f"'%s'.format([[{', '.join(f'dyn({each})' for each in VALUES)}]])"}

SCENARIOS: dict[str, list[Step]] = {
    "expressions that cannot be used": [policy(validations=valid(*WRONG))],
    "expressions have values": [policy(validations=[SHOWN]), binding(), config("a", DENIED, n="1")],
    **{
        f"an expression fails: {text}": [policy(validations=valid(text)), binding(), config("a", DENIED, n="1")]
        for text in FAILING
    },
    "validating policies are written": [
        policy(validations=TRUE),
        policy(validations=TRUE),
        Step("PATCH", f"{GROUP}/validatingadmissionpolicies/$ns", {"spec": {"failurePolicy": "Ignore"}}, MERGE),
        Step("PATCH", f"{GROUP}/validatingadmissionpolicies/$ns", {"spec": {"validations": []}}, MERGE),
        Step("DELETE", f"{GROUP}/validatingadmissionpolicies/$ns"),
    ],
    "validating policies are refused": [
        policy(),
        policy(matchConstraints=None, validations=TRUE),
        policy(matchConstraints={}, validations=TRUE),
        policy(validations=TRUE, failurePolicy="Sometimes"),
        policy(validations=valid("object.nope(1)")),
        policy(validations=valid("object.spec.replicas")),
        policy(validations=valid("1 + 'a' == 2")),
        policy(validations=valid("params.x == 1")),
        policy(validations=valid("request.nope == ''")),
        policy(validations=valid(" ")),
        policy(validations=valid({"expression": "true", "message": " "})),
        policy(validations=valid({"expression": "true", "message": "a\nb"})),
        policy(validations=valid({"expression": "true", "messageExpression": "1"})),
        policy(validations=valid({"expression": "true", "messageExpression": " "})),
        policy(
            validations=valid(
                {"expression": "true", "messageExpression": "authorizer.path('/x').check('get').reason()"}
            )
        ),
        policy(validations=valid({"expression": "true", "reason": "Nope"})),
        policy(validations=TRUE, paramKind={"apiVersion": "a/b/c", "kind": ""}),
        policy(validations=TRUE, paramKind={"apiVersion": "v1", "kind": "Co_nfig"}),
        policy(validations=TRUE, matchConditions=[{"name": "", "expression": ""}]),
        policy(
            validations=TRUE,
            matchConditions=[{"name": "a", "expression": "variables.x"}, {"name": "a", "expression": "1"}],
        ),
        policy(validations=TRUE, variables=[{"name": "a-b", "expression": "1"}, {"name": "c", "expression": " "}]),
        policy(validations=valid("variables.x + 'a' == ''"), variables=[{"name": "x", "expression": "1"}]),
        policy(validations=valid("variables.y == ''"), variables=[{"name": "x", "expression": "1"}]),
        policy(validations=valid("variables.x == 1"), variables=[{"name": "x", "expression": "nope"}]),
        policy(auditAnnotations=[{"key": "a b", "valueExpression": "1"}]),
        policy(auditAnnotations=[{"key": "a", "valueExpression": "'x'"}, {"key": "a", "valueExpression": ""}]),
        policy(validations=TRUE, matchConstraints={**rules("CREATE", "*"), "objectSelector": SELECTOR}),
        policy(validations=TRUE, matchConstraints={**rules("MAKE"), "matchPolicy": "About"}),
        policy(
            validations=TRUE,
            matchConstraints={
                "resourceRules": [
                    {
                        "apiGroups": ["*", "a"],
                        "apiVersions": ["*", ""],
                        "resources": ["*", "pods", "x/*", "x/y"],
                        "operations": [],
                    }
                ]
            },
        ),
        policy(name="A_b", validations=TRUE),
    ],
    "bindings are written and refused": [
        binding(),
        binding(validationActions=["Deny", "Warn"]),
        binding(name="other", validationActions=["Deny", "Deny", "Nope"]),
        binding(name="other", validationActions=[]),
        binding(name="other", of="A_b"),
        binding(name="other", of=""),
        binding(name="other", paramRef={}),
        binding(name="other", paramRef={"name": "a/b", "selector": {}, "parameterNotFoundAction": "Cry"}),
        binding(name="other", matchResources={"namespaceSelector": SELECTOR}),
    ],
    "mutating policies are written and refused": [
        policy(
            mutating=True,
            reinvocationPolicy="Never",
            mutations=[
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/data/x', value: 'y'}]"},
                }
            ],
        ),
        policy(mutating=True, name="other"),
        policy(mutating=True, name="other", reinvocationPolicy="Always", mutations=[{}]),
        policy(
            mutating=True,
            name="other",
            reinvocationPolicy="Never",
            mutations=[{"patchType": "JSONPatch"}, {"patchType": "Nope"}],
        ),
        policy(
            mutating=True,
            name="other",
            reinvocationPolicy="Never",
            mutations=[
                {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}, "applyConfiguration": {"expression": " "}}
            ],
        ),
        policy(
            mutating=True,
            name="other",
            reinvocationPolicy="Never",
            mutations=[{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{operation: 'add'}]"}}],
        ),
        policy(
            mutating=True,
            name="other",
            reinvocationPolicy="Never",
            mutations=[{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "{'spec': 1}"}}],
        ),
        policy(
            mutating=True,
            name="other",
            reinvocationPolicy="Never",
            matchConstraints=rules("DELETE"),
            mutations=[{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
        ),
        binding(mutating=True),
        binding(mutating=True, name="other", of="", matchResources=rules("DELETE")),
    ],
    "what is judged": [
        policy(
            matchConstraints=rules("CREATE", "UPDATE", "DELETE"),
            variables=[
                {"name": "bad", "expression": "has(object.data) && has(object.data.x) && object.data.x == 'bad'"}
            ],
            validations=valid(
                {"expression": "request.operation == 'DELETE' || !variables.bad", "message": "no bad data"},
                {
                    "expression": "request.operation != 'CREATE' || size(object.metadata.name) < 6",
                    "messageExpression": "'too long: ' + object.metadata.name + ' in ' + namespaceObject.metadata.name",
                    "reason": "Forbidden",
                },
                "request.operation != 'UPDATE' || object.data.size() >= oldObject.data.size()",
                "request.operation != 'DELETE' || object == null && oldObject.metadata.name != 'keep'",
                "request.operation != 'CREATE' || object.metadata.name != 'err' || object.data.nope == ''",
                {"expression": "request.userInfo.username != ''", "reason": "RequestEntityTooLarge"},
                "request.operation != 'CREATE' || authorizer.requestResource.check('create').allowed()",
                "request.name != 'named' || request.kind.kind + request.resource.resource == 'x'",
            ),
        ),
        binding(),
        config("a", DENIED, x="bad"),
        config("much-too-long"),
        config("a", x="good", y="z"),
        config("err"),
        config("named"),
        config("keep"),
        change("a", y=None),
        change("a", x="bad"),
        change("a", x="better"),
        Step("DELETE", f"{CONFIG_MAPS}/keep"),
        Step("DELETE", f"{CONFIG_MAPS}/a"),
        Step("POST", "/api/v1/namespaces/$ns/secrets", {"metadata": {"name": "much-too-long"}}),
    ],
    "failures are ignored": [
        policy(
            failurePolicy="Ignore",
            validations=valid("object.data.nope == ''", "object.metadata.name != 'no'"),
            paramKind={"apiVersion": "v1", "kind": "Secret"},
        ),
        binding(),
        config("no", DENIED),
        config("yes"),
    ],
    "conditions": [
        policy(
            matchConditions=[
                {"name": "named", "expression": "object.metadata.name.startsWith('x')"},
                {"name": "fails", "expression": "object.data.a == ''"},
            ],
            validations=valid("false"),
        ),
        binding(),
        config("x", DENIED, a=""),
        config("xx"),
        config("y"),
    ],
    "parameters": [
        policy(
            validations=valid(
                {"expression": "object.data.x != params.data.word", "messageExpression": "string(params.metadata.name)"}
            ),
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            matchConditions=[{"name": "a", "expression": "has(object.data) && has(object.data.x)"}],
        ),
        config("one", labels={"p": "q"}, word="a"),
        config("two", labels={"p": "q"}, word="b"),
        binding(paramRef={"selector": {"matchLabels": {"p": "q"}}, "parameterNotFoundAction": "Deny"}),
        config("a", "denied request: one", x="a"),
        config("b", x="b"),
        config("c", x="c"),
        binding(name="named", paramRef={"name": "one", "namespace": "$ns", "parameterNotFoundAction": "Allow"}),
        binding(name="missing", paramRef={"name": "missing", "parameterNotFoundAction": "Deny"}),
        config("d", "no params found", x="d"),
    ],
    "a kind of parameters that nobody knows": [
        policy(validations=TRUE, paramKind={"apiVersion": "example.com/v1", "kind": "Nope"}),
        binding(),
        config("a", DENIED),
    ],
    "bindings choose": [
        policy(validations=valid("false")),
        binding(
            matchResources={
                "objectSelector": {"matchLabels": {"judge": "me"}},
                "excludeResourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["*"],
                        "resources": ["*"],
                        "resourceNames": ["spared"],
                    }
                ],
            }
        ),
        config("a", DENIED, labels={"judge": "me"}),
        config("a"),
        config("spared", labels={"judge": "me"}),
    ],
    "what is changed": [
        changes(
            "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a.b'), value: 'patched'}]",
            "Object{metadata: Object.metadata{labels: {'applied': string(object.data.size())}}}",
            matchConstraints=rules("CREATE", "UPDATE"),
        ),
        binding(mutating=True),
        config("a", "patched", x="y"),
        change("a", z="w"),
        config("fails"),
    ],
    "a test in a patch": [
        changes(
            "[JSONPatch{op: 'test', path: '/data/x', value: 'y'}, "
            "JSONPatch{op: 'replace', path: '/data/x', value: 'z'}]",
            "[JSONPatch{op: 'add', path: '/data/always', value: 'done'}]",
        ),
        binding(mutating=True),
        config("a", "done", x="y"),
        config("b", x="other"),
    ],
    "changes of pods": [
        changes(
            "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'side:1'}]}}",
            "Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, "
            "imagePullPolicy: 'Always'})}}",
            matchConstraints=rules("CREATE", of=PODS),
        ),
        binding(mutating=True),
        Step(
            "POST", "/api/v1/namespaces/$ns/pods", requests.pod("a", automountServiceAccountToken=False), until="side:1"
        ),
    ],
    "changes that fail": [
        changes(
            "object.metadata.name == 'atomic' ? Object{spec: Object.spec{containers: "
            "[Object.spec.containers{name: 'c', command: ['x']}]}} : "
            "object.metadata.name == 'error' ? Object{metadata: Object.metadata{name: object.nope}} : "
            "Object{spec: Object.spec{nope: 1}}",
            matchConstraints=rules("CREATE", of=PODS),
        ),
        binding(mutating=True),
        Step(
            "POST",
            "/api/v1/namespaces/$ns/pods",
            requests.pod("atomic", automountServiceAccountToken=False),
            until=DENIED,
        ),
        Step("POST", "/api/v1/namespaces/$ns/pods", requests.pod("error", automountServiceAccountToken=False)),
        Step("POST", "/api/v1/namespaces/$ns/pods", requests.pod("unknown", automountServiceAccountToken=False)),
    ],
}


class Server(NamedTuple):
    """A server. With `waits`, requests with `until` are repeated for up to a minute."""

    send: Send
    waits: bool


def play(scenario: str, server: Server) -> list[dict[str, Any]]:
    send, waits = server
    answers: list[dict[str, Any]] = []
    words: dict[str, str] = {}
    namespace = requests.NAMESPACE
    for step in SCENARIOS[scenario]:
        body = b"" if step.body is None else json.dumps(step.body).replace("$ns", namespace).encode()
        given = Given(step.method, step.path.replace("$ns", namespace), body, step.type, step.query)
        for _attempt in range(120 if waits and step.until else 1):
            status, answer = send(given)
            if step.until in json.dumps(answer):
                break
            if waits and step.until:
                if status < 300:
                    send(Given("DELETE", f"{given.path}/{step.body['metadata']['name']}", b"", JSON, {}))
                time.sleep(0.5)
        requests.learn(answer, words)
        answers.append({"status": status, "body": requests.plain(answer, words, requests.DROPPED)})
    return answers


def tidied(send: Send) -> Send:
    """Create the namespace and delete the objects of earlier scenarios."""
    for kind in ("validating", "mutating"):
        for plural in (f"{kind}admissionpolicybindings", f"{kind}admissionpolicies"):
            _status, found = send(Given("GET", f"{GROUP}/{plural}", b"", JSON, {}))
            for item in found.get("items") or ():
                send(Given("DELETE", f"{GROUP}/{plural}/{item['metadata']['name']}", b"", JSON, {}))
    name = json.dumps({"metadata": {"name": requests.NAMESPACE}}).encode()
    send(Given("POST", "/api/v1/namespaces", name, JSON, {}))
    for plural in ("configmaps", "pods", "secrets"):
        send(
            Given("DELETE", f"/api/v1/namespaces/{requests.NAMESPACE}/{plural}", b"", JSON, {"gracePeriodSeconds": "0"})
        )
    time.sleep(3)  # kube-apiserver sees the deletion of a policy by a watch, at an unknown time
    return send


@contextmanager
def _real(directory: Path, assets: Path) -> Iterator[Callable[[str], Server]]:
    with real_sender(directory, assets) as send:
        yield lambda _scenario: Server(tidied(send), waits=True)


def _embedded(make_api: type[Api], scenario: str) -> Server:
    return Server(embedded()(make_api, scenario), waits=False)


CONTRACT = Contract("policies", SCENARIOS, play, embedded=_embedded, real=_real)
