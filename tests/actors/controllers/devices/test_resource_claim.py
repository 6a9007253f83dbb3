"""Tests of the resource claim controller: its syncs, its keys, its decisions and its metrics.

Source of the cases: kubernetes v1.36 pkg/controller/resourceclaim/controller_test.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.devices.resource_claim import SPEC
from kcm.actors.controllers.devices.resource_claim.claims import name_base
from kcm.actors.controllers.devices.resource_claim.metrics import CLAIMS, CREATES, ResourceClaimMetrics
from kcm.actors.controllers.devices.resource_claim.reconciler import (
    MOST_DELETED,
    ClaimError,
    Features,
    ResourceClaimReconciler,
)
from kcm.actors.controllers.devices.resource_claim.watches import Enqueuing, PodGroupMissingError
from kcm.actors.reconciliation import Change, Retry
from kcm.actors.simulation.driver import Answer, Bench, Driven, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, Update
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Done,
    Forbidden,
    NotFound,
    Outcome,
    Refused,
    Unknown,
)
from kcm.protocols.objects import Object, annotations_of, decode_object, encode_object, finalizers_of, key_of, name_of
from kcm.protocols.resource_claims import (
    DELETE_PROTECTION,
    EXTENDED_RESOURCE_CLAIM,
    POD_CLAIM_NAME,
    is_reserved_for,
    owner_problem,
    resource_claim_facts,
)
from kcm.protocols.resources import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from kcm.runtime.metrics.registry import Metrics

ENTRY, TEMPLATE, NAMESPACE = "acme-resource", "my-template", "my-namespace"
GENERATED = "test-pod-acme-resource-xyz"
LATER = "2026-01-01T00:00:00Z"
ADMIN = {"devices": {"requests": [{"name": "req-0", "exactly": {"deviceClassName": "class", "adminAccess": True}}]}}
PRIORITIZED = {"devices": {"requests": [{"name": "req-0", "firstAvailable": [{"name": "a"}]}]}}


def entry(name: str = ENTRY, *, template: str = TEMPLATE, claim: str = "") -> Object:
    return (
        {"name": name, "resourceClaimName": claim} if claim else {"name": name, "resourceClaimTemplateName": template}
    )


def pod(
    name: str = "test-pod",
    *entries: Object,
    node: str = "",
    phase: str = "",
    group: str = "",
    recorded: Mapping[str, str | None] | None = None,
    extended: str = "",
    **meta: Any,
) -> Object:
    spec: Object = {"resourceClaims": list(entries)} if entries else {}
    if node:
        spec["nodeName"] = node
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    status: Object = {"phase": phase} if phase else {}
    if recorded:
        status["resourceClaimStatuses"] = [statuses(each, claim) for each, claim in recorded.items()]
    if extended:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": extended}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", **meta},
        "spec": spec,
        "status": status,
    }


def statuses(entry_name: str, claim_name: str | None) -> Object:
    return {"name": entry_name, **({} if claim_name is None else {"resourceClaimName": claim_name})}


def podgroup(*entries: Object, recorded: Mapping[str, str] | None = None, **meta: Any) -> Object:
    status = {"resourceClaimStatuses": [statuses(*each) for each in recorded.items()]} if recorded else {}
    return {
        "metadata": {"name": "group", "namespace": NAMESPACE, "uid": "uid-group", **meta},
        "spec": {"resourceClaims": list(entries)},
        "status": status,
    }


def template(spec: Object | None = None, **meta: Any) -> Object:
    inner: Object = {"spec": {} if spec is None else spec}
    if meta:
        inner["metadata"] = meta
    return {"metadata": {"name": TEMPLATE, "namespace": NAMESPACE}, "spec": inner}


def owner_of(user: Object, kind: str = "Pod") -> Object:
    version = "v1" if kind == "Pod" else "scheduling.k8s.io/v1alpha2"
    meta = user["metadata"]
    return {"apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


def consumer(user: Object, **other: str) -> Object:
    meta = user["metadata"]
    return {"resource": "pods", "name": meta["name"], "uid": meta["uid"], **other}


IN_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"}
OTHER_CONSUMER = {"apiGroup": "foo.com", "resource": "foo", "name": "foo", "uid": "123"}


def claim(
    name: str = GENERATED,
    *,
    owner: Object | None = None,
    templated: bool = True,
    allocated: bool = False,
    reserved: Iterable[Object] = (),
    protected: bool = False,
    spec: Object | None = None,
    **meta: Any,
) -> Object:
    whole: Object = {"name": name, "namespace": NAMESPACE, **meta}
    if owner is not None:
        whole["ownerReferences"] = [owner]
    if templated:
        whole["annotations"] = {POD_CLAIM_NAME: ENTRY}
    if protected:
        whole["finalizers"] = [DELETE_PROTECTION]
    status: Object = {"allocation": {"devices": {}}} if allocated or reserved else {}
    if reserved:
        status["reservedFor"] = list(reserved)
    return {"metadata": whole, "spec": spec or {}, "status": status}


POD, PLAIN, OTHER_POD = pod("test-pod", entry()), pod(), pod("test-pod-II")
OF_POD = owner_of(POD)
GROUP = podgroup(entry())
OF_GROUP = owner_of(GROUP, "PodGroup")
OF_OTHER = owner_of(pod("other"))
RECORDED = pod("test-pod", entry(), recorded={ENTRY: GENERATED})
CONSUMER, CONSUMER_II = consumer(POD), consumer(OTHER_POD)
GROUP_CONSUMER = consumer(GROUP, **IN_GROUP)


class Scene:
    """Bench that runs the reconciler.

    live: pods of the API server that the table does not contain.
    """

    def __init__(
        self,
        *,
        pods: Iterable[Object] = (),
        claims: Iterable[Object] = (),
        templates: Iterable[Object] = (),
        groups: Iterable[Object] | None = None,
        live: Iterable[Object] = (),
        **features: bool,
    ) -> None:
        tables: dict[Resource, Iterable[Any]] = {
            PODS: pods,
            RESOURCE_CLAIMS: claims,
            RESOURCE_CLAIM_TEMPLATES: templates,
        }
        self.enqueuing = Enqueuing(groups=groups is not None)
        if groups is not None:
            tables[POD_GROUPS] = groups
        self.live = {key_of(each): each for each in live}
        self.bench = Bench(tables, indexes=self.enqueuing.indexes, facts=SPEC.facts)
        self.metrics = Metrics()
        lister = self.bench.tables[RESOURCE_CLAIMS]
        self.reconciler = ResourceClaimReconciler(
            tables=self.bench.tables,
            features=Features(groups=groups is not None, **features),
            metrics=ResourceClaimMetrics(self.metrics, lister),
            log=CapturingLogger(),  # type: ignore[arg-type]
        )

    def reconcile(self, key: str, answer: Answer | None = None, **how: Any) -> Driven:
        return drive(self.reconciler, key, answer or self.accept, tables=self.bench.tables, **how)

    def accept(self, command: Command) -> Outcome:
        if isinstance(command, Get) and command.resource == PODS.id and command.key in self.live:
            live = self.live[command.key]
            return Done(encode_object({**live, "metadata": {**live["metadata"], "resourceVersion": "1000"}}))
        return self.bench.accept(command)

    def claims(self) -> list[Object]:
        return sorted(self.bench.tables[RESOURCE_CLAIMS].objects(), key=name_of)

    def recorded(self, resource: Resource = PODS, name: str = "test-pod") -> list[Object]:
        found = self.bench.tables[resource].get(f"{NAMESPACE}/{name}")
        assert found is not None
        return list((found.get("status") or {}).get("resourceClaimStatuses") or ())

    def created(self) -> dict[tuple[str, ...], float]:
        return {
            labels: series.value
            for family, all_ in self.metrics.collect()
            if family is CREATES
            for labels, series in all_
        }

    def keys(self, watched: Resource, change: Change) -> list[str]:
        (watch,) = (watch for watch in self.enqueuing.watches if watch.resource == watched)
        return list(dict.fromkeys(watch.to(change, self.bench.tables)))


POD_KEY, GROUP_KEY = f"pod:{NAMESPACE}/test-pod", f"podgroup:{NAMESPACE}/group"
CLAIM_KEY = f"claim:{NAMESPACE}/{GENERATED}"
NO_TEMPLATE = f'resource claim template "{TEMPLATE}": resourceclaimtemplate.resource.k8s.io "{TEMPLATE}" not found'
NO_ADMIN = "admin access is requested, but the feature is disabled"
NO_LIST = "template includes a prioritized list of subrequests, but the feature is disabled"


# Claims from templates.


@pytest.mark.parametrize(
    ("scene", "key", "spec", "metric"),
    [
        ({"pods": [POD], "templates": [template()]}, POD_KEY, {}, ("success", "false")),
        ({"pods": [POD], "templates": [template(ADMIN)]}, POD_KEY, ADMIN, ("success", "true")),
        ({"pods": [POD], "templates": [template(PRIORITIZED)]}, POD_KEY, PRIORITIZED, ("success", "false")),
        ({"groups": [GROUP], "templates": [template()]}, GROUP_KEY, {}, ("success", "false")),
        (  # recreate
            {"pods": [pod("test-pod", entry(), recorded={ENTRY: GENERATED})], "templates": [template()]},
            POD_KEY,
            {},
            ("success", "false"),
        ),
        (
            {"groups": [podgroup(entry(), recorded={ENTRY: GENERATED})], "templates": [template()]},
            GROUP_KEY,
            {},
            ("success", "false"),
        ),
        (  # the group's claim, while the feature gate is disabled
            {
                "pods": [pod("test-pod", entry(), group="group")],
                "claims": [claim("of-group", owner=OF_GROUP)],
                "templates": [template()],
            },
            POD_KEY,
            {},
            ("success", "false"),
        ),
        (  # the recorded claim belongs to another pod
            {
                "pods": [pod("test-pod", entry(), recorded={ENTRY: "other"})],
                "claims": [claim("other", owner=OF_OTHER)],
                "templates": [template()],
            },
            POD_KEY,
            {},
            ("success", "false"),
        ),
    ],
)
def test_missing_claim_is_created_and_its_name_recorded(
    scene: Any, key: str, spec: Object, metric: tuple[str, str]
) -> None:
    tried = Scene(**scene)
    before = [name_of(each) for each in tried.claims()]
    driven = tried.reconcile(key)
    (made,) = (each for each in tried.claims() if name_of(each) not in before)
    owner, of, name = (OF_POD, PODS, "test-pod") if key == POD_KEY else (OF_GROUP, POD_GROUPS, "group")
    assert made["spec"] == spec
    assert made["metadata"]["ownerReferences"] == [owner]
    assert annotations_of(made) == {POD_CLAIM_NAME: ENTRY}
    assert made["metadata"]["generateName"] == f"{name}-{ENTRY}-"
    assert name_of(made).startswith(f"{name}-{ENTRY}-")
    assert name_of(made) != GENERATED
    assert tried.recorded(of, name) == [statuses(ENTRY, name_of(made))]
    assert tried.created() == {metric: 1.0}
    (applied,) = driven.of(Patch)
    assert (applied.subresource, applied.field_manager, applied.force) == ("status", "ResourceClaimController", True)
    assert tried.reconcile(key).commands == []  # the own writes are known at once


def test_claim_has_labels_and_annotations_of_its_template() -> None:
    scene = Scene(pods=[POD], templates=[template(labels={"a": "b"}, annotations={"c": "d", POD_CLAIM_NAME: "x"})])
    scene.reconcile(POD_KEY)
    (made,) = scene.claims()
    assert made["metadata"]["labels"] == {"a": "b"}
    assert annotations_of(made) == {"c": "d", POD_CLAIM_NAME: ENTRY}


@pytest.mark.parametrize(
    ("scene", "key", "error"),
    [
        ({"pods": [POD]}, POD_KEY, NO_TEMPLATE),
        ({"groups": [GROUP]}, GROUP_KEY, NO_TEMPLATE),
        ({"pods": [POD], "claims": [claim("test-pod-acme-resource", templated=False)]}, POD_KEY, NO_TEMPLATE),
        ({"pods": [POD], "templates": [template(ADMIN)], "admin_access": False}, POD_KEY, NO_ADMIN),
        ({"groups": [GROUP], "templates": [template(ADMIN)], "admin_access": False}, GROUP_KEY, NO_ADMIN),
        ({"pods": [POD], "templates": [template(PRIORITIZED)], "prioritized_list": False}, POD_KEY, NO_LIST),
        (
            {"pods": [pod("test-pod", {"name": ENTRY})]},
            POD_KEY,
            (
                f'checking for claim before creating it: pod "{NAMESPACE}/test-pod", spec.resourceClaim "{ENTRY}": '
                "none of the supported fields are set"
            ),
        ),
    ],
)
def test_claim_that_cannot_be_created_is_reported(scene: Any, key: str, error: str) -> None:
    tried = Scene(**scene)
    driven = tried.reconcile(key, raises=ClaimError)
    kind = "Pod" if key == POD_KEY else "PodGroup"
    assert driven.events == [("Warning", "FailedResourceClaimCreation", f"{kind}ResourceClaim {ENTRY}: {error}")]
    assert str(driven.error) == error
    assert driven.commands == []
    assert tried.created() == {}


QUOTA = '"{name}" is forbidden: exceeded quota: q, requested: count/resourceclaims.resource.k8s.io=1'


@pytest.mark.parametrize(
    ("failure", "event"),
    [
        (Conflict("Operation cannot be fulfilled"), "create ResourceClaim : Operation cannot be fulfilled"),
        (Forbidden("no"), "create ResourceClaim : no"),
        (Unknown("timeout"), "create ResourceClaim : timeout"),
        (Refused("the lease is lost"), ""),
    ],
)
@pytest.mark.parametrize("key", [POD_KEY, GROUP_KEY])
def test_failed_creation_is_reported_and_counted(failure: Any, event: str, key: str) -> None:
    scene = Scene(pods=[POD], groups=[GROUP], templates=[template()])
    driven = scene.reconcile(key, lambda _: failure, raises=CommandError)
    kind = "Pod" if key == POD_KEY else "PodGroup"
    assert [text for _, _, text in driven.events] == ([f"{kind}ResourceClaim {ENTRY}: {event}"] if event else [])
    assert scene.created() == {("failure", "false"): 1.0}
    assert driven.of(Patch) == []


def test_creation_with_unknown_outcome_is_retried_under_the_same_name() -> None:
    scene = Scene(pods=[POD], templates=[template()])
    (first,) = scene.reconcile(POD_KEY, lambda _: Unknown(), raises=CommandError).of(Create)
    made = decode_object(first.body)
    scene.bench.show(PODS, {**POD, "metadata": {**POD["metadata"], "labels": {"new": "version"}}})

    def existing(command: Command) -> Outcome:
        if isinstance(command, Create):
            return AlreadyExists()
        if isinstance(command, Get):
            return Done(encode_object({**made, "metadata": {**made["metadata"], "uid": "u", "resourceVersion": "5"}}))
        return scene.accept(command)

    driven = scene.reconcile(POD_KEY, existing)
    (again,) = driven.of(Create)
    assert name_of(decode_object(again.body)) == name_of(made)
    assert scene.recorded() == [statuses(ENTRY, name_of(made))]


@pytest.mark.parametrize(
    "there", [None, claim("x", owner=OF_OTHER, uid="u", resourceVersion="5"), claim("x", uid="u", resourceVersion="5")]
)
def test_name_of_a_foreign_claim_is_not_recorded(there: Object | None) -> None:
    scene = Scene(pods=[POD], templates=[template()])

    def taken(command: Command) -> Outcome:
        if isinstance(command, Create):
            return AlreadyExists()
        assert isinstance(command, Get)
        return NotFound() if there is None else Done(encode_object(there))

    assert scene.reconcile(POD_KEY, taken, raises=Retry).of(Patch) == []


@pytest.mark.parametrize(
    ("scene", "key"),
    [
        ({"pods": [POD], "claims": [claim(owner=OF_POD)]}, POD_KEY),
        ({"groups": [GROUP], "claims": [claim(owner=OF_GROUP)]}, GROUP_KEY),
        (
            {
                "pods": [pod("test-pod", entry(), group="group")],
                "groups": [GROUP],
                "claims": [claim(owner=OF_GROUP)],
                "templates": [template()],
            },
            POD_KEY,
        ),
        ({"pods": [POD], "claims": [claim("a", owner=OF_POD, deletionTimestamp=LATER), claim(owner=OF_POD)]}, POD_KEY),
        ({"pods": [POD], "claims": [claim(f"{GENERATED}-2", owner=OF_POD), claim(owner=OF_POD)]}, POD_KEY),
    ],
)
def test_existing_claim_is_found_by_its_owner_and_annotation(scene: Any, key: str) -> None:
    tried = Scene(**scene)
    driven = tried.reconcile(key)
    assert driven.of(Create) == []
    of, name = (PODS, "test-pod") if key == POD_KEY else (POD_GROUPS, "group")
    assert tried.recorded(of, name) == [statuses(ENTRY, GENERATED)]


def test_claims_of_other_entries_and_pods_are_not_taken() -> None:
    others = [
        claim("a", owner=OF_OTHER),
        claim("b", owner=OF_POD, templated=False),
        claim("c", owner=OF_POD, annotations={POD_CLAIM_NAME: "other"}, templated=False),
        {**claim("d", owner=OF_POD), "metadata": {**claim("d", owner=OF_OTHER)["metadata"], "namespace": "elsewhere"}},
    ]
    scene = Scene(pods=[POD], claims=others, templates=[template()])
    scene.reconcile(POD_KEY)
    assert len(scene.claims()) == 5


@pytest.mark.parametrize(
    ("scene", "key"),
    [
        ({}, POD_KEY),
        ({"groups": []}, GROUP_KEY),
        ({"pods": [PLAIN]}, POD_KEY),
        ({"pods": [pod("test-pod", entry(), deletionTimestamp=LATER)], "templates": [template()]}, POD_KEY),
        ({"groups": [podgroup(entry(), deletionTimestamp=LATER)], "templates": [template()]}, GROUP_KEY),
        (
            {
                "pods": [pod("test-pod", entry(), recorded={ENTRY: GENERATED})],
                "claims": [claim(owner=OF_POD)],
                "templates": [template()],
            },
            POD_KEY,
        ),
        (
            {"groups": [podgroup(entry(), recorded={ENTRY: GENERATED})], "claims": [claim(owner=OF_GROUP)]},
            GROUP_KEY,
        ),
        ({"pods": [pod("test-pod", entry(claim="by-user"))]}, POD_KEY),
        ({"pods": [pod("test-pod", entry(), phase="Failed")], "templates": [template()]}, POD_KEY),
        ({"pods": [pod("test-pod", entry(), recorded={ENTRY: None}, node="n")], "templates": [template()]}, POD_KEY),
        ({"groups": [GROUP], "pods": [pod("test-pod", entry(), group="group")], "templates": [template()]}, POD_KEY),
        ({"groups": [GROUP], "pods": [pod("test-pod", entry(), group="group")]}, POD_KEY),
        ({"groups": [GROUP], "pods": [pod("test-pod", entry(), group="group", node="n")]}, POD_KEY),
    ],
)
def test_nothing_is_written_where_no_claim_must_be_created(scene: Any, key: str) -> None:
    assert Scene(**scene).reconcile(key).commands == []


def test_pod_of_a_missing_group_is_retried() -> None:
    scene = Scene(pods=[pod("test-pod", entry(), group="group")], groups=[], templates=[template()])
    driven = scene.reconcile(POD_KEY, raises=PodGroupMissingError)
    assert str(driven.error) == (
        f'get PodGroup for Pod {NAMESPACE}/test-pod: podgroup.scheduling.k8s.io "group" not found'
    )
    assert (driven.commands, driven.events) == ([], [])


def test_entry_of_the_pod_alone_gets_a_claim_of_its_own() -> None:
    user = pod("test-pod", entry(), entry("own"), group="group")
    scene = Scene(pods=[user], groups=[GROUP], claims=[claim(owner=OF_GROUP)], templates=[template()])
    scene.reconcile(POD_KEY)
    (made,) = (each for each in scene.claims() if name_of(each) != GENERATED)
    assert made["metadata"]["ownerReferences"] == [OF_POD]
    assert scene.recorded() == [statuses(ENTRY, GENERATED), statuses("own", name_of(made))]


def test_applied_names_include_those_that_are_recorded_already() -> None:
    user = pod("test-pod", entry("a"), entry("b"), entry("c"), entry(claim="by-user"), recorded={"a": "x", "b": None})
    scene = Scene(pods=[user], claims=[claim("x", owner=OF_POD, templated=False)], templates=[template()])
    (applied,) = scene.reconcile(POD_KEY).of(Patch)
    names = {
        each["name"]: each["resourceClaimName"]
        for each in decode_object(applied.body)["status"]["resourceClaimStatuses"]
    }
    assert list(names) == ["a", "c"]
    assert names["a"] == "x"


def test_later_claims_wait_for_an_earlier_one_that_cannot_be_created() -> None:
    user = pod("test-pod", entry("a"), entry("b", template="missing"), entry("c"))
    scene = Scene(pods=[user], templates=[template()])
    driven = scene.reconcile(POD_KEY, raises=ClaimError)
    assert (len(driven.of(Create)), driven.of(Patch)) == (1, [])


@pytest.mark.parametrize(
    ("user", "entry_name", "base"),
    [
        ("pod", "claim", "pod-claim-"),
        ("p" * 40, "c" * 15, f"{'p' * 40}-{'c' * 15}-"),
        ("p" * 40, "c" * 16, f"{'p' * 39}-{'c' * 15}"),
        ("p" * 100, "c" * 10, f"{'p' * 50}-{'c' * 5}"),
        ("p" * 10, "c" * 63, f"{'p' * 7}-{'c' * 47}"),
    ],
)
def test_long_names_are_truncated_in_proportion(user: str, entry_name: str, base: str) -> None:
    assert name_base(user, entry_name) == base
    assert len(base) <= 57


# Reservations.

BOUND = {"node": "worker", "recorded": {ENTRY: GENERATED}}


@pytest.mark.parametrize(
    ("user", "there", "groups", "reserved"),
    [
        (pod("test-pod", entry(), **BOUND), claim(owner=OF_POD, allocated=True), None, [CONSUMER]),
        (pod("test-pod", entry(), **BOUND), claim(owner=OF_POD), None, []),
        (pod("test-pod", entry(), **BOUND), claim(owner=OF_POD, reserved=[CONSUMER]), None, [CONSUMER]),
        (
            pod("test-pod", entry(), recorded={ENTRY: GENERATED}),
            claim(owner=OF_POD, allocated=True),
            None,
            [],
        ),
        (pod("test-pod", entry(), **BOUND), claim(owner=OF_POD, allocated=True, deletionTimestamp=LATER), None, []),
        (
            pod("test-pod", entry(claim=GENERATED), node="worker"),
            claim(templated=False, reserved=[CONSUMER_II]),
            None,
            [CONSUMER_II, CONSUMER],
        ),
        (
            pod("test-pod", entry(), group="group", **BOUND),
            claim(owner=OF_POD, allocated=True),
            [GROUP],
            [GROUP_CONSUMER],
        ),
        (
            pod("test-pod", entry(), group="group", **BOUND),
            claim(owner=OF_GROUP, reserved=[GROUP_CONSUMER]),
            [GROUP],
            [GROUP_CONSUMER],
        ),
        (pod("test-pod", entry(), group="group", **BOUND), claim(owner=OF_POD, allocated=True), None, [CONSUMER]),
    ],
)
def test_allocated_claims_of_a_bound_pod_are_reserved(
    user: Object, there: Object, groups: Any, reserved: list[Object]
) -> None:
    scene = Scene(pods=[user], claims=[there], groups=groups, templates=[template()])
    driven = scene.reconcile(POD_KEY)
    (found,) = scene.claims()
    assert list(found["status"].get("reservedFor") or ()) == reserved
    before = list(there["status"].get("reservedFor") or ())
    assert [update.subresource for update in driven.of(Update)] == (["status"] if reserved != before else [])


def test_claim_of_another_owner_is_not_reserved() -> None:
    user = pod("test-pod", entry(claim="a"), entry(), entry("missing", claim="m"), entry("z", claim="z"), **BOUND)
    there = [claim("a", templated=False, allocated=True), claim(owner=OF_POD), claim("z", allocated=True)]
    scene = Scene(pods=[user], claims=there, templates=[template()])
    scene.reconcile(POD_KEY)
    assert [name_of(each) for each in scene.claims() if each["status"].get("reservedFor")] == ["a"]


def test_recorded_claim_that_the_table_lacks_is_read_before_it_is_generated_again() -> None:
    scene = Scene(pods=[RECORDED], templates=[template()])
    existing = {**claim(owner=OF_POD), "status": {}}
    existing["metadata"] |= {"uid": "u", "resourceVersion": "1000"}
    driven = scene.reconcile(POD_KEY, lambda _: Done(encode_object(existing)))
    assert [type(command) for command in driven.commands] == [Get]


# Consumers that are gone.


def done(user: Object) -> Object:
    return {**user, "status": {**user["status"], "phase": "Succeeded"}}


@pytest.mark.parametrize(
    ("scene", "reserved", "allocated", "protected"),
    [
        ({"pods": [POD], "claims": [claim(owner=OF_POD, reserved=[CONSUMER])]}, [CONSUMER], True, False),
        ({"live": [POD], "claims": [claim(owner=OF_POD, reserved=[CONSUMER])]}, [CONSUMER], True, False),
        ({"claims": [claim(owner=OF_POD, reserved=[CONSUMER], protected=True)]}, [], False, False),
        ({"claims": [claim(owner=OF_POD, reserved=[CONSUMER])]}, [], True, False),
        (
            {"groups": [], "claims": [claim(owner=OF_POD, reserved=[GROUP_CONSUMER], protected=True)]},
            [],
            False,
            False,
        ),
        (
            {"groups": [GROUP], "claims": [claim(owner=OF_POD, reserved=[GROUP_CONSUMER], protected=True)]},
            [GROUP_CONSUMER],
            True,
            True,
        ),
        (
            {"claims": [claim(owner=OF_POD, reserved=[GROUP_CONSUMER], protected=True)]},
            [GROUP_CONSUMER],
            True,
            True,
        ),
        (
            {"pods": [POD], "claims": [claim(owner=OF_POD, reserved=[CONSUMER, CONSUMER_II], protected=True)]},
            [CONSUMER],
            True,
            True,
        ),
        (
            {"claims": [claim(owner=OF_POD, reserved=[CONSUMER], protected=True, deletionTimestamp=LATER)]},
            [],
            False,
            False,
        ),
        (
            {"claims": [claim(owner=OF_POD, allocated=True, protected=True, deletionTimestamp=LATER)]},
            [],
            False,
            False,
        ),
        ({"claims": [claim(protected=True, deletionTimestamp=LATER)]}, [], False, False),
        ({"claims": [claim(allocated=True, protected=True)]}, [], True, True),
        ({"pods": [done(POD)], "claims": [claim(reserved=[CONSUMER])]}, [], True, False),
        (
            {
                "pods": [done(POD)],
                "claims": [claim(owner=OF_POD, reserved=[CONSUMER, OTHER_CONSUMER])],
            },
            [OTHER_CONSUMER],
            True,
            False,
        ),
        (
            {"pods": [pod("test-pod", entry(), deletionTimestamp=LATER)], "claims": [claim(reserved=[CONSUMER])]},
            [],
            True,
            False,
        ),
        (
            {
                "pods": [pod("test-pod", entry(), deletionTimestamp=LATER, node="worker")],
                "claims": [claim(reserved=[CONSUMER])],
            },
            [CONSUMER],
            True,
            False,
        ),
        # The table has an older or a newer pod of this name.
        (
            {"pods": [pod("test-pod", uid="old")], "live": [POD], "claims": [claim(reserved=[CONSUMER])]},
            [CONSUMER],
            True,
            False,
        ),
        (
            {"pods": [pod("test-pod", uid="new")], "claims": [claim(reserved=[CONSUMER])]},
            [],
            True,
            False,
        ),
    ],
)
def test_reservations_of_consumers_that_are_gone_are_removed(
    scene: Any, reserved: list[Object], allocated: bool, protected: bool
) -> None:
    tried = Scene(**scene)
    tried.reconcile(CLAIM_KEY)
    (found,) = tried.claims()
    assert list(found["status"].get("reservedFor") or ()) == reserved
    assert ("allocation" in found["status"], DELETE_PROTECTION in finalizers_of(found)) == (allocated, protected)
    commands = tried.reconcile(CLAIM_KEY).commands
    assert [command for command in commands if not isinstance(command, Get)] == []


def test_known_deletion_saves_a_live_read() -> None:
    scene = Scene(claims=[claim(reserved=[CONSUMER])])
    scene.reconcile(f"deleted:{CONSUMER['uid']}")
    assert scene.reconcile(CLAIM_KEY).of(Get) == []


def test_oldest_known_deletions_are_forgotten() -> None:
    scene = Scene(claims=[claim(reserved=[CONSUMER])])
    for number in range(MOST_DELETED):
        scene.reconcile(f"deleted:{number or CONSUMER['uid']}")
    scene.reconcile(f"deleted:{CONSUMER['uid']}")  # is now the newest
    scene.reconcile("deleted:last")
    assert scene.reconcile(CLAIM_KEY).of(Get) == []
    other = Scene(claims=[claim(reserved=[CONSUMER])])
    other.reconcile(f"deleted:{CONSUMER['uid']}")
    for number in range(MOST_DELETED):
        other.reconcile(f"deleted:{number}")
    assert len(other.reconcile(CLAIM_KEY).of(Get)) == 1


def test_claim_that_vanishes_needs_no_retry() -> None:
    scene = Scene(claims=[claim(reserved=[CONSUMER], protected=True)])
    driven = scene.reconcile(CLAIM_KEY, lambda _: NotFound())
    assert [type(command) for command in driven.commands] == [Get, Update]


@pytest.mark.parametrize(
    ("pods", "there", "deleted"),
    [
        ([done(POD)], claim(owner=OF_POD, reserved=[CONSUMER]), True),
        ([done(POD)], claim(owner=OF_POD), True),
        ([done(POD)], claim(templated=False), False),
        ([POD], claim(owner=OF_POD), False),
        ([], claim(owner=OF_POD), False),  # the garbage collector deletes it
        ([pod("test-pod", uid="new")], claim(owner=OF_POD), True),
        ([pod("test-pod", entry(), deletionTimestamp=LATER)], claim(owner=OF_POD), True),
        ([done(POD)], claim(owner={**OF_POD, "controller": False}), False),
        ([done(POD)], claim(owner={**OF_POD, "kind": "Website"}), False),
        ([done(POD)], claim(owner=OF_POD, deletionTimestamp=LATER, finalizers=["other"]), False),
    ],
)
def test_generated_claim_is_deleted_if_its_pod_will_not_run(pods: Any, there: Object, deleted: bool) -> None:
    scene = Scene(pods=pods, claims=[there])
    assert len(scene.reconcile(CLAIM_KEY).of(Delete)) == deleted
    assert (scene.claims() if deleted else []) == []


def test_claim_of_a_newer_pod_is_kept() -> None:
    scene = Scene(pods=[pod("test-pod", uid="old")], live=[POD], claims=[claim(owner=OF_POD)])
    assert [type(command) for command in scene.reconcile(CLAIM_KEY).commands] == [Get]


# Keys.


def change(new: Object, old: Object | None = None, *, deleted: bool = False) -> Change:
    type_ = "DELETED" if deleted else "ADDED" if old is None else "MODIFIED"
    previous = b"" if old is None else encode_object(old)
    return Change(type=type_, key=key_of(new), raw=encode_object(new), controller=None, previous=previous)


@pytest.mark.parametrize(
    ("happened", "scene", "keys"),
    [
        (change(POD), {}, [POD_KEY]),
        (change(RECORDED), {}, [POD_KEY]),
        (change(RECORDED), {"claims": [claim(owner=OF_POD)]}, []),
        (change(RECORDED), {"claims": [claim(owner=OF_OTHER)]}, []),
        (change(RECORDED), {"claims": [claim(owner=OF_POD, allocated=True)]}, []),
        (change(pod("test-pod", entry(), **BOUND)), {"claims": [claim(owner=OF_POD, allocated=True)]}, [POD_KEY]),
        (change(pod("test-pod", entry(), **BOUND)), {"claims": [claim(owner=OF_POD, reserved=[CONSUMER])]}, []),
        (change(pod("test-pod", entry(claim="by-user"))), {}, []),
        (change(pod("test-pod", {"name": ENTRY})), {}, [POD_KEY]),
        (change(pod("test-pod", entry(), recorded={ENTRY: None})), {}, []),
        (change(pod("test-pod", entry(), deletionTimestamp=LATER, node="n")), {}, []),
        (change(done(RECORDED), RECORDED), {"claims": [claim(owner=OF_POD)]}, [CLAIM_KEY]),
        (change(done(RECORDED)), {}, [CLAIM_KEY]),
        (change(done(POD)), {"claims": [claim(owner=OF_POD), claim("other", owner=OF_OTHER)]}, [CLAIM_KEY]),
        (change(pod("test-pod", entry(claim=GENERATED), deletionTimestamp=LATER)), {}, [CLAIM_KEY]),
        (change(RECORDED, deleted=True), {}, ["deleted:uid-test-pod", CLAIM_KEY]),
        (change(POD, deleted=True), {}, ["deleted:uid-test-pod"]),
        (
            change(POD, pod("test-pod", entry(claim="b"), uid="old")),
            {},
            ["deleted:old", f"claim:{NAMESPACE}/b", POD_KEY],
        ),
        # Extended resources.
        (change(pod("test-pod", entry("regular"), phase="Running")), {}, [POD_KEY]),
        (change(pod(extended=GENERATED, phase="Running")), {}, []),
        (change(pod(extended=GENERATED, phase="Succeeded")), {}, [CLAIM_KEY]),
        (change(pod(extended=GENERATED, phase="Failed")), {}, [CLAIM_KEY]),
        (change(pod(extended=GENERATED, phase="Succeeded"), deleted=True), {}, ["deleted:uid-test-pod", CLAIM_KEY]),
        (
            change(pod("test-pod", entry(claim="a"), extended=GENERATED, phase="Succeeded")),
            {},
            [f"claim:{NAMESPACE}/a", CLAIM_KEY],
        ),
        # PodGroups.
        (change(pod("test-pod", entry(), recorded={ENTRY: "x"}, group="group")), {"groups": [GROUP]}, []),
        (change(pod("test-pod", entry(), recorded={ENTRY: "x"}, group="group")), {"groups": []}, [POD_KEY]),
        (change(pod("test-pod", entry(), recorded={ENTRY: "x"}, group="group")), {}, [POD_KEY]),
    ],
)
def test_keys_of_changed_pods(happened: Change, scene: Any, keys: list[str]) -> None:
    assert Scene(**scene).keys(PODS, happened) == keys


@pytest.mark.parametrize(
    ("user", "indexed"),
    [
        (PLAIN, []),
        (pod(group="group"), []),
        (pod(extended="x"), ["any"]),
        (POD, ["any", f"template:{NAMESPACE}/{TEMPLATE}"]),
        (RECORDED, ["any", f"template:{NAMESPACE}/{TEMPLATE}", CLAIM_KEY]),
        (pod("p", entry(claim="a"), group="group"), ["any", f"claim:{NAMESPACE}/a", GROUP_KEY]),
        ({"metadata": {"name": "p"}, "spec": {"resourceClaims": "malformed"}}, ["any"]),
        ({"metadata": {"name": "p"}}, []),
    ],
)
def test_index_of_pods_with_claims(user: Object, indexed: list[str]) -> None:
    assert list(SPEC.indexes[0].values_of(user)) == indexed


IN_STATUS = podgroup(entry(), recorded={ENTRY: GENERATED})
MEMBERS = [
    pod("one", entry(), group="group"),
    pod("two", entry(), group="group"),
    pod("three", entry(), group="other"),
    pod("four", group="group"),
]


@pytest.mark.parametrize(
    ("watched", "happened", "scene", "keys"),
    [
        (POD_GROUPS, change(IN_STATUS), {"groups": []}, [GROUP_KEY]),
        (POD_GROUPS, change(IN_STATUS), {"groups": [], "claims": [claim(owner=OF_GROUP)]}, []),
        (POD_GROUPS, change(podgroup(entry(claim="x"))), {"groups": []}, []),
        (POD_GROUPS, change(podgroup({"name": "x"})), {"groups": []}, [GROUP_KEY]),
        (POD_GROUPS, change(podgroup(entry(), deletionTimestamp=LATER)), {"groups": []}, []),
        (POD_GROUPS, change(IN_STATUS, deleted=True), {"groups": []}, ["deleted:uid-group", CLAIM_KEY]),
        (
            POD_GROUPS,
            change(IN_STATUS, GROUP),
            {"groups": [IN_STATUS], "pods": MEMBERS},
            [GROUP_KEY, f"pod:{NAMESPACE}/one", f"pod:{NAMESPACE}/two"],
        ),
        (
            RESOURCE_CLAIMS,
            change(claim(owner=OF_GROUP)),
            {"groups": [IN_STATUS], "claims": [claim(owner=OF_GROUP)]},
            [CLAIM_KEY],
        ),
        (RESOURCE_CLAIMS, change(claim(owner=OF_GROUP), deleted=True), {"groups": [IN_STATUS]}, [GROUP_KEY]),
        (
            RESOURCE_CLAIMS,
            change(claim(owner=OF_POD)),
            {"pods": [RECORDED], "claims": [claim(owner=OF_POD)]},
            [CLAIM_KEY],
        ),
        (RESOURCE_CLAIMS, change(claim(owner=OF_POD), deleted=True), {"pods": [RECORDED]}, [POD_KEY]),
        (RESOURCE_CLAIMS, change(claim("unrelated"), deleted=True), {"pods": [RECORDED]}, []),
        (RESOURCE_CLAIM_TEMPLATES, change(template()), {"pods": [POD, PLAIN], "groups": [GROUP]}, [POD_KEY, GROUP_KEY]),
        (
            RESOURCE_CLAIM_TEMPLATES,
            change({"metadata": {"name": TEMPLATE, "namespace": "elsewhere"}}),
            {"pods": [POD]},
            [],
        ),
    ],
)
def test_keys_of_other_changes(watched: Resource, happened: Change, scene: Any, keys: list[str]) -> None:
    assert Scene(**scene).keys(watched, happened) == keys


def test_gate_adds_the_watch_of_groups() -> None:
    options = read_options(["--feature-gates=DRAWorkloadResourceClaims=true,GenericWorkload=true"], controllers=[SPEC])
    assert POD_GROUPS not in SPEC.resources
    assert POD_GROUPS in SPEC.adapted(SPEC, options).resources
    assert SPEC.adapted(SPEC, read_options([], controllers=[SPEC])) is SPEC


# Owners, consumers and metrics.


@pytest.mark.parametrize(
    ("user", "owner", "accept_group", "problem"),
    [
        (POD, OF_POD, False, ""),
        (POD, None, False, "(Pod is not owner)"),
        (POD, OF_OTHER, False, "(Pod is not owner)"),
        (POD, OF_OTHER, True, "(Pod is not owner)"),
        (pod("test-pod", group="group"), OF_GROUP, False, "(Pod is not owner)"),
        (pod("test-pod", group="group"), OF_GROUP, True, ""),
        (pod("test-pod", group="group"), {**OF_GROUP, "apiVersion": "scheduling.k8s.io/v1"}, True, ""),
        (
            pod("test-pod", group="group"),
            {**OF_GROUP, "apiVersion": "example.com/v1"},
            True,
            "(neither Pod nor PodGroup group is the owner)",
        ),
        (pod("test-pod", group="other"), OF_GROUP, True, "(neither Pod nor PodGroup other is the owner)"),
    ],
)
def test_owner_of_a_generated_claim(user: Object, owner: Object | None, accept_group: bool, problem: str) -> None:
    text = owner_problem(user, claim(owner=owner), accept_group=accept_group)
    whole = f"ResourceClaim {NAMESPACE}/{GENERATED} was not created for Pod {NAMESPACE}/test-pod {problem}"
    assert text == (whole if problem else "")


@pytest.mark.parametrize(
    ("user", "reserved", "accept_group", "expected"),
    [
        (POD, [], False, False),
        (POD, [CONSUMER], False, True),
        (POD, [CONSUMER_II], False, False),
        (pod("test-pod", group="group"), [GROUP_CONSUMER], False, False),
        (pod("test-pod", group="group"), [GROUP_CONSUMER], True, True),
        (pod("test-pod", group="other"), [GROUP_CONSUMER], True, False),
        (POD, [GROUP_CONSUMER], True, False),
    ],
)
def test_reservation_for_a_pod(user: Object, reserved: list[Object], accept_group: bool, expected: bool) -> None:
    assert is_reserved_for(user, claim(reserved=reserved), accept_group=accept_group) is expected


def exactly(value: bool | None) -> Object:
    return {"exactly": {} if value is None else {"adminAccess": value}}


@pytest.mark.parametrize(
    ("requests", "admin"),
    [
        (None, False),
        ([exactly(False)], False),
        ([exactly(True)], True),
        ([{"firstAvailable": [{}]}], False),
        ([exactly(False), exactly(True)], True),
        ([exactly(None), exactly(False)], False),
    ],
)
def test_admin_access_of_a_claim(requests: Any, admin: bool) -> None:
    made = claim(spec={"devices": {"requests": requests}} if requests else {})
    assert resource_claim_facts(made).admin_access is admin


@pytest.mark.parametrize("field", [{"status": {"reservedFor": "x"}}, {"spec": {"devices": {"requests": ["x"]}}}])
def test_malformed_claim_is_unreadable(field: Object) -> None:
    with pytest.raises(ValueError, match="is a"):
        resource_claim_facts({**claim(), **field})


def test_claims_are_counted_at_each_scrape() -> None:
    extended = {EXTENDED_RESOURCE_CLAIM: "true"}
    scene = Scene(
        claims=[
            claim("a", templated=False),
            claim("b", templated=False, allocated=True),
            claim("c", spec=ADMIN),
            claim("d", spec=ADMIN, allocated=True),
            claim("e", templated=False, annotations=extended),
            claim("f", templated=False, annotations={EXTENDED_RESOURCE_CLAIM: "false"}),
        ]
    )

    def counts() -> dict[tuple[str, ...], float]:
        return {labels: s.value for family, all_ in scene.metrics.collect() if family is CLAIMS for labels, s in all_}

    assert counts() == {
        ("false", "false", ""): 2.0,
        ("true", "false", ""): 1.0,
        ("false", "true", "resource_claim_template"): 1.0,
        ("true", "true", "resource_claim_template"): 1.0,
        ("false", "false", "extended_resource"): 1.0,
    }
    scene.bench.hide(RESOURCE_CLAIMS, f"{NAMESPACE}/e")
    scene.bench.show(RESOURCE_CLAIMS, claim("a", templated=False, allocated=True))
    assert counts() == {
        ("false", "false", ""): 1.0,
        ("true", "false", ""): 2.0,
        ("false", "true", "resource_claim_template"): 1.0,
        ("true", "true", "resource_claim_template"): 1.0,
    }
