"""ValidatingAdmissionPolicy status: upstream's cases, matched kinds, failures, and a simulated cluster.

Cases: kubernetes v1.36 pkg/controller/validatingadmissionpolicystatus/controller_test.go; apiserver
pkg/admission/plugin/policy/validating/typechecking_test.go (TestExtractTypeNames).
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.apimachinery.validatingadmissionpolicystatus import (
    MANAGER,
    SPEC,
    MatchedKind,
    PolicyStatus,
    kinds_for,
    matched_kinds,
    params_kind,
)
from kcm.actors.options import InvalidOptionsError
from kcm.actors.reconciliation import Retry
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, Driven, drive
from kcm.protocols.discovery.documents import GroupVersion
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Fetch, Patch, PatchType
from kcm.protocols.messages.discovery import ServedResource, TablesChanged
from kcm.protocols.messages.lifecycle import Restarted
from kcm.protocols.messages.outcomes import Conflict, Done, Forbidden, NotFound, Outcome, ServerFailure
from kcm.protocols.objects import Object
from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS as CRDS
from kcm.protocols.resources import VALIDATING_ADMISSION_POLICIES as POLICIES
from kcm.runtime.client.api import Request
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.simulation.network import OPENAPI


def served(group: str, version: str, plural: str, kind: str) -> ServedResource:
    return ServedResource(group=group, version=version, plural=plural, kind=kind, namespaced=True)


DEPLOYMENTS = served("apps", "v1", "deployments", "Deployment")
PODS = served("", "v1", "pods", "Pod")
SERVED = (
    PODS,
    DEPLOYMENTS,
    served("", "v1", "events", "Event"),
    served("events.k8s.io", "v1", "events", "Event"),
    served("apps", "v1", "daemonsets", "DaemonSet"),
)
DEPLOYMENT, POD = MatchedKind("apps", "v1", "Deployment"), MatchedKind("", "v1", "Pod")


def rule(groups: str = "apps", versions: str = "v1", resources: str = "deployments") -> Object:
    return {
        "apiGroups": groups.split(","),
        "apiVersions": versions.split(","),
        "resources": resources.split(","),
        "operations": ["*"],
    }


def policy(*expressions: str, rules: list[Object] | None = None, **more: Any) -> Object:
    spec = {
        "matchConstraints": {"resourceRules": [rule()] if rules is None else rules},
        "validations": [{"expression": text} for text in expressions],
    }
    return {"metadata": {"name": "p", "generation": 2}, "spec": {**spec, **more}, "status": {"observedGeneration": 1}}


MATCHES = {
    "empty": ([], ()),
    "specific": ([rule()], (DEPLOYMENT,)),
    "multiple": ([rule(), rule("", "v1", "pods")], (POD, DEPLOYMENT)),
    "all resources": ([rule("apps", "v1", "*")], ()),
    "sub resources": ([rule("apps", "v1", "pods/*")], ()),
    "mixtures": ([rule(), rule("apps", "*", "deployments")], (DEPLOYMENT,)),
    "any group": ([rule("*", "v1", "deployments")], ()),
    "one group of several is a wildcard": ([rule("apps,*", "v1", "deployments")], ()),
    "a subresource beside a resource": ([rule("apps", "v1", "deployments,deployments/scale")], (DEPLOYMENT,)),
    "the core group stands for every group": (
        [rule("", "v1", "events")],
        (MatchedKind("", "v1", "Event"), MatchedKind("events.k8s.io", "v1", "Event")),
    ),
    "singular, in capitals": ([rule("apps", "v1", "Deployment")], (DEPLOYMENT,)),
    "other version": ([rule("apps", "v2", "deployments")], ()),
    "twice the same": ([rule(), rule()], (DEPLOYMENT,)),
}


@pytest.mark.parametrize(("rules", "kinds"), MATCHES.values(), ids=MATCHES.keys())
def test_kinds_of_resource_rules(rules: list[Object], kinds: tuple[MatchedKind, ...]) -> None:
    assert matched_kinds(policy(rules=rules), SERVED).kinds == kinds


def test_ten_kinds_of_a_rule_are_checked() -> None:
    many = [served("a.io", "v1", f"r{number:02}", f"R{number:02}") for number in range(12)]
    names = ",".join(entry.plural for entry in many)
    found = matched_kinds(policy(rules=[rule("a.io", "v1", names), rule()]), (*many, DEPLOYMENTS)).kinds
    assert [kind.kind for kind in found] == [f"R{number:02}" for number in range(10)]


def test_limit_applies_to_each_rule() -> None:
    many = [served("a.io", "v1", f"r{number:02}", f"R{number:02}") for number in range(12)]
    rules = [rule("a.io", "v1", entry.plural) for entry in many]
    assert len(matched_kinds(policy(rules=rules), many).kinds) == 12


def test_unserved_resource_is_reported() -> None:
    assert matched_kinds(policy(rules=[rule(), rule("", "v1", "pods")]), SERVED).missing == ()
    assert matched_kinds(policy(rules=[rule(), rule("", "v1", "pots")]), SERVED).missing == (GroupVersion("", "v1"),)
    assert matched_kinds({"metadata": {}, "spec": {}}, SERVED).missing == ()
    assert kinds_for("apps", "v1", "pods", SERVED) == []


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (None, None),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, MatchedKind("", "v1", "ConfigMap")),
        ({"apiVersion": "a.io/v1", "kind": "A"}, MatchedKind("a.io", "v1", "A")),
        ({"apiVersion": "a/b/c", "kind": "A"}, None),
        ({"apiVersion": "", "kind": ""}, None),
    ],
)
def test_kind_of_parameters_is_that_of_the_param_kind(kind: Object | None, found: MatchedKind | None) -> None:
    assert params_kind(policy(**({"paramKind": kind} if kind is not None else {}))) == found


class Server:
    """Answers of the API server: OpenAPI documents and discovery of a simulated one, and the given failures."""

    def __init__(self, bench: Bench, **failures: Outcome) -> None:
        self._bench, self._failures = bench, failures
        self._network = SimulatedCluster().network

    def __call__(self, command: Command) -> Outcome:
        if isinstance(command, Patch) and "write" in self._failures:
            return self._failures["write"]
        if not isinstance(command, Fetch):
            return self._bench.accept(command)
        failing = "openapi" if command.path.startswith(OPENAPI) else "discovery"
        if failing in self._failures:
            return self._failures[failing]
        response: Any = self._network.serve(Request(method="GET", path=command.path, accept=command.accept))
        return Done(response.body) if response.status == 200 else NotFound("not found")


def sync(given: Object, *, knows: Any = SERVED, raises: type[Exception] | None = None, **failures: Outcome) -> Driven:
    bench = Bench({POLICIES: [given]})
    reconciler = PolicyStatus(tables=bench.tables, clock=bench.clock, log=quiet_log())
    if knows is not None:
        reconciler.on_message(TablesChanged((), (), tuple(knows)))
    return drive(reconciler, "p", Server(bench, **failures), tables=bench.tables, raises=raises)


def written(driven: Driven) -> Object:
    [command] = driven.of(Patch)
    assert (command.subresource, command.patch_type, command.force) == ("status", PatchType.APPLY, True)
    assert command.field_manager == MANAGER == "validatingadmissionpolicy-status"
    body = orjson.loads(command.body)
    assert body.pop("metadata") == {"name": "p", "uid": "uid-of-p"}
    assert body.keys() == {"apiVersion", "kind", "status"}
    status: Object = body["status"]
    return status


CONFUSION = "found no matching overload for '_>_' applied to '(int, string)'"
CHECKS: dict[str, tuple[list[str], dict[str, list[str]]]] = {
    "deployment with correct expression": (["object.spec.replicas > 1"], {}),
    "deployment with type confusion": (
        ["object.spec.replicas < 100", "object.spec.replicas > '1'"],
        {"spec.validations[1].expression": [CONFUSION]},
    ),
    "two expressions different type checking errors": (
        ["object.spec.nonExistingFirst > 1", "object.spec.replicas > '1'"],
        {
            "spec.validations[0].expression": ["undefined field 'nonExistingFirst'"],
            "spec.validations[1].expression": [CONFUSION],
        },
    ),
    "one expression, two warnings": (
        ["object.spec.replicas < 100", "object.spec.replicas > '1' && object.spec.nonExisting == 1"],
        {"spec.validations[1].expression": ["undefined field 'nonExisting'", CONFUSION]},
    ),
}


@pytest.mark.parametrize(("expressions", "warnings"), CHECKS.values(), ids=CHECKS.keys())
def test_warnings_of_a_check_are_written_to_the_status(expressions: list[str], warnings: dict[str, list[str]]) -> None:
    status = written(sync(policy(*expressions)))
    assert status["observedGeneration"] == 2
    entries = status["typeChecking"].get("expressionWarnings", [])
    assert [entry["fieldRef"] for entry in entries] == list(warnings)
    for entry, texts in zip(entries, warnings.values(), strict=True):
        assert entry["warning"].startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:")
        assert all(text in entry["warning"] for text in texts)


def test_without_warnings_the_result_is_empty() -> None:
    assert written(sync(policy("true"))) == {"observedGeneration": 2, "typeChecking": {}}


@pytest.mark.parametrize("observed", [2, 3])
def test_observed_generation_is_not_checked_again(observed: int) -> None:
    given = policy("object.nothing == 1")
    given["status"]["observedGeneration"] = observed
    assert sync(given).commands == []


def test_deleted_policy_needs_no_work() -> None:
    bench = Bench({POLICIES: []})
    reconciler = PolicyStatus(tables=bench.tables, clock=bench.clock, log=quiet_log())
    assert drive(reconciler, "p", bench.accept, tables=bench.tables).commands == []


def test_expressions_are_checked_against_the_schema_of_the_parameters() -> None:
    params = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    status = written(sync(policy("object.spec.replicas < params.limit", "params.data['a'] == 'b'", **params)))
    [entry] = status["typeChecking"]["expressionWarnings"]
    assert "undefined field 'limit'" in entry["warning"]


def test_parameters_of_an_unknown_kind_may_have_any_field() -> None:
    params = {"paramKind": {"apiVersion": "a.io/v1", "kind": "Limit"}}
    assert written(sync(policy("object.spec.replicas < params.limit", **params)))["typeChecking"] == {}


def test_check_waits_for_discovery() -> None:
    assert sync(policy("true"), knows=None, raises=Retry).commands == []


def test_unknown_resource_is_discovered_again() -> None:
    driven = sync(policy("object.nothing == 1"), knows=(PODS,))
    assert [command.path for command in driven.of(Fetch)] == ["/api", "/apis", "/openapi/v3/apis/apps/v1"]
    assert len(written(driven)["typeChecking"]["expressionWarnings"]) == 1


def test_resource_that_does_not_exist_has_no_warnings() -> None:
    driven = sync(policy("object.nothing == 1", rules=[rule("a.io", "v1", "things")]))
    assert written(driven) == {"observedGeneration": 2, "typeChecking": {}}


@pytest.mark.parametrize("failure", [NotFound(), Forbidden("no"), Done(b"no JSON"), Done(b"[]")])
def test_kind_without_a_schema_is_skipped_after_a_while(failure: Outcome) -> None:
    bench = Bench({POLICIES: [policy("object.nothing == 1")]})
    reconciler = PolicyStatus(tables=bench.tables, clock=bench.clock, log=quiet_log())
    reconciler.on_message(TablesChanged((), (), SERVED))
    server = Server(bench, openapi=failure)
    for seconds in (0.0, 9.0):
        bench.clock.advance(seconds)
        assert drive(reconciler, "p", server, tables=bench.tables, raises=Retry).of(Patch) == []
    bench.clock.advance(1.0)
    assert written(drive(reconciler, "p", server, tables=bench.tables))["typeChecking"] == {}


def test_failure_of_the_server_is_retried() -> None:
    driven = sync(policy("object.nothing == 1"), openapi=ServerFailure("down"), raises=CommandError)
    assert driven.of(Patch) == []


def test_unknown_resource_waits_while_discovery_fails() -> None:
    driven = sync(policy("true"), knows=(PODS,), discovery=ServerFailure("down"), raises=Retry)
    assert driven.of(Patch) == []
    assert written(sync(policy("true"), discovery=ServerFailure("down")))["observedGeneration"] == 2


def test_result_is_not_written_to_another_policy_of_the_name() -> None:
    sync(policy("true"), write=Conflict("another uid"), raises=CommandError)
    assert sync(policy("true"), write=NotFound()).error is None


def test_messages() -> None:
    bench = Bench({POLICIES: []})
    reconciler = PolicyStatus(tables=bench.tables, clock=bench.clock, log=quiet_log())
    assert reconciler.on_message(Restarted("x", 1)) == ()
    with pytest.raises(TypeError):
        reconciler.on_message("other")


def test_number_of_workers_is_positive() -> None:
    with pytest.raises(InvalidOptionsError, match="must be positive, got 0"):
        read_options(["--concurrent-validating-admission-policy-status-syncs=0"])


def crd(name: str, **spec: Any) -> Object:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return {
        "metadata": {"name": f"{name}s.a.io"},
        "spec": {
            "group": "a.io",
            "scope": "Namespaced",
            "names": {"plural": f"{name}s", "singular": name, "kind": name.capitalize(), "listKind": f"{name}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def test_custom_resource_defined_just_before_the_policy_is_checked(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[SPEC])
    cluster.run_for(30.0)
    cluster.create(CRDS, crd("thing", size={"type": "integer"}))
    expressions = [{"expression": "object.spec.size > '1'"}, {"expression": "object.spec.size > 1"}]
    spec = {"matchConstraints": {"resourceRules": [rule("a.io", "v1", "things")]}, "validations": expressions}
    cluster.create(POLICIES, {"metadata": {"name": "p"}, "spec": spec})

    def status() -> Object:
        found: Object = (cluster.get(POLICIES, "p") or {}).get("status") or {}
        return found

    assert cluster.run_until(lambda: status().get("observedGeneration") == 1, within=30.0)
    [entry] = status()["typeChecking"]["expressionWarnings"]
    assert entry["fieldRef"] == "spec.validations[0].expression"
    assert entry["warning"].startswith("a.io/v1, Kind=Thing: ERROR: <input>:1:18: found no matching overload for '_>_'")
    cluster.merge(POLICIES, "p", {"spec": {"validations": expressions[1:]}})
    assert cluster.run_until(lambda: status().get("observedGeneration") == 2, within=30.0)
    assert status()["typeChecking"] == {}
