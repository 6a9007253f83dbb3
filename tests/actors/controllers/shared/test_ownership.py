from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.controllers.shared.ownership import ClaimFields, claim, claim_fields_reader, plan_claim
from kcm.actors.reconciliation import Reconciliation
from kcm.actors.simulation.driver import Bench, bodies, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Get, Patch
from kcm.protocols.messages.outcomes import Conflict, Done, Forbidden, Invalid, NotFound, Outcome, Unknown
from kcm.protocols.objects import Object, decode_object, encode_object, owner_reference
from kcm.protocols.resources import NODES, PODS, REPLICASETS
from kcm.protocols.selectors import map_selector
from tests.support.failures import said
from tests.support.objects import running_pod

WEB = {"app": "web"}
OTHER = {"app": "other"}
SELECTOR = map_selector(WEB)


def owner(name: str = "web", namespace: str = "default", **meta: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", **meta}}


def reference(of: Object) -> Object:
    return owner_reference(of, api_version="apps/v1", kind="ReplicaSet")


class Claimer:
    """Reconciler that claims all pods, and keeps the result."""

    def __init__(self, bench: Bench, claiming: Object, **options: Any) -> None:
        self.pods = bench.tables[PODS]
        self.claiming, self.options = claiming, options
        self.kept = None

    def reconcile(self, key: str) -> Reconciliation:
        candidates = sorted(self.pods.entries(), key=lambda entry: entry.key)
        kept = yield from claim(
            candidates,
            lister=self.pods,
            owner=self.claiming,
            owner_resource=REPLICASETS,
            matches=SELECTOR.matches,
            **self.options,
        )
        self.kept = [entry.key for entry in kept]


WEB_RS = owner()
DELETING = owner(deletionTimestamp="2026-01-01T00:00:00Z")
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"]}
# the candidate, the owner, the result
PLANS = {
    "a matching orphan is adopted": (running_pod("p", labels=WEB), WEB_RS, "adopted"),
    "an orphan that does not match is left alone": (running_pod("p", labels=OTHER), WEB_RS, None),
    "an orphan without labels is left alone": (running_pod("p"), WEB_RS, None),
    "an orphan of another namespace is left alone": (running_pod("p", labels=WEB, namespace="far"), WEB_RS, None),
    "a cluster-scoped owner adopts in any namespace": (
        running_pod("p", labels=WEB, namespace="far"),
        owner(namespace=""),
        "adopted",
    ),
    "an orphan that is being deleted is left alone": (running_pod("p", labels=WEB, metadata=GONE), WEB_RS, None),
    "an owner that is being deleted adopts nothing": (running_pod("p", labels=WEB), DELETING, None),
    "what matches is kept": (running_pod("p", labels=WEB, owner=reference(WEB_RS)), WEB_RS, "kept"),
    "what matches is kept while it is deleted": (
        running_pod("p", labels=WEB, owner=reference(WEB_RS), metadata=GONE),
        WEB_RS,
        "kept",
    ),
    "what matches is kept while the owner is deleted": (
        running_pod("p", labels=WEB, owner=reference(WEB_RS)),
        DELETING,
        "kept",
    ),
    "what matches no longer is released": (running_pod("p", labels=OTHER, owner=reference(WEB_RS)), WEB_RS, "released"),
    "an owner that is being deleted releases nothing": (
        running_pod("p", labels=OTHER, owner=reference(WEB_RS)),
        DELETING,
        None,
    ),
    "what another owns is left alone": (running_pod("p", labels=WEB, owner=reference(owner("api"))), WEB_RS, None),
    "a namesake of the owner is another": (
        running_pod("p", labels=WEB, owner={**reference(WEB_RS), "uid": "former"}),
        WEB_RS,
        None,
    ),
}


@pytest.mark.parametrize(("candidate", "claiming", "expected"), PLANS.values(), ids=PLANS)
def test_candidate_is_kept_adopted_released_or_ignored(
    candidate: Object, claiming: Object, expected: str | None
) -> None:
    pods = Bench({PODS: [candidate]}).tables[PODS]
    plan = plan_claim(pods.entries(), owner=claiming, matches=SELECTOR.matches)
    assert {part for part in plan._fields if getattr(plan, part)} == ({expected} if expected else set())


def test_additional_condition_is_evaluated_besides_the_selector() -> None:
    bench = Bench({PODS: [running_pod(name, labels=WEB, owner=reference(WEB_RS)) for name in ("web-0", "stranger")]})
    plan = plan_claim(
        bench.tables[PODS].entries(),
        owner=WEB_RS,
        matches=SELECTOR.matches,
        belongs=lambda entry: entry.key.startswith("default/web-"),
    )
    assert [entry.key for entry in plan.kept] == ["default/web-0"]
    assert [entry.key for entry in plan.released] == ["default/stranger"]


def test_selector_is_evaluated_once_for_shared_labels() -> None:
    bench = Bench({PODS: [running_pod(f"p{i}", labels=WEB) for i in range(5)] + [running_pod("q", labels=OTHER)]})
    asked = []
    plan_claim(bench.tables[PODS].entries(), owner=WEB_RS, matches=lambda labels: bool(asked.append(labels)))
    assert sorted(labels["app"] for labels in asked) == ["other", "web"]


def test_objects_without_facts_are_decoded() -> None:
    nodes = Bench({NODES: [{"metadata": {"name": "n1", "labels": WEB, "deletionTimestamp": "2026-01-01T00:00:00Z"}}]})
    lister = nodes.tables[NODES]
    (entry,) = lister.entries()
    assert claim_fields_reader(lister)(entry) == ClaimFields(WEB, True)


def claiming(
    pods: Sequence[Object], live: Object | Outcome = WEB_RS, of: Object = WEB_RS, **options: Any
) -> tuple[Any, ...]:
    bench = Bench({PODS: pods})
    claimer = Claimer(bench, of, **options)

    def answer(command: Command) -> Outcome:
        if isinstance(command, Get):
            return live if not isinstance(live, dict) else Done(encode_object(live))
        return bench.accept(command)

    return bench, claimer, answer


def test_owner_is_read_live_once_before_all_adoptions() -> None:
    bench, claimer, answer = claiming([running_pod("a", labels=WEB), running_pod("b", labels=WEB)])
    driven = drive(claimer, "default/web", answer, tables=bench.tables)
    assert [[type(command) for command in batch] for batch in driven.batches] == [[Get], [Patch, Patch]]
    assert claimer.kept == ["default/a", "default/b"]


def test_adopted_object_is_returned_in_its_new_version() -> None:
    bench, claimer, answer = claiming([running_pod("a", labels=WEB)])
    drive(claimer, "default/web", answer, tables=bench.tables)
    assert [entry.key for entry in bench.tables[PODS].entries_owned_by("uid-of-web")] == claimer.kept == ["default/a"]


def test_owner_is_not_read_live_without_adoptions() -> None:
    pods = [
        running_pod("a", labels=WEB, owner=reference(WEB_RS)),
        running_pod("b", labels=OTHER, owner=reference(WEB_RS)),
    ]
    bench, claimer, answer = claiming(pods)
    driven = drive(claimer, "default/web", answer, tables=bench.tables)
    assert [type(command) for command in driven.commands] == [Patch]
    assert claimer.kept == ["default/a"]
    assert [entry.key for entry in bench.tables[PODS].orphan_entries("default")] == ["default/b"]


def test_patches_with_finalizers_equal_upstreams() -> None:
    pods = [
        running_pod("a", labels=WEB),
        running_pod("b", labels=OTHER, owner=reference(WEB_RS), metadata={"finalizers": ["example.com/track"]}),
    ]
    bench, claimer, answer = claiming(pods, finalizers=["example.com/track"])
    driven = drive(claimer, "default/web", answer, tables=bench.tables)
    reference_to_us = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": "uid-of-web",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert bodies(driven, Patch) == [
        {
            "metadata": {
                "ownerReferences": [reference_to_us],
                "uid": "uid-of-a",
                "finalizers": ["example.com/track"],
            }
        },
        {
            "metadata": {
                "uid": "uid-of-b",
                "ownerReferences": [{"$patch": "delete", "uid": "uid-of-web"}],
                "$deleteFromPrimitiveList/finalizers": ["example.com/track"],
            }
        },
    ]
    pods_now = {entry.key: decode_object(entry.raw)["metadata"] for entry in bench.tables[PODS].entries()}
    assert pods_now["default/a"]["finalizers"] == ["example.com/track"]
    assert not pods_now["default/b"].get("finalizers")
    assert not pods_now["default/b"].get("ownerReferences")


def test_patches_without_finalizers_contain_none() -> None:
    pods = [running_pod("a", labels=WEB), running_pod("b", labels=OTHER, owner=reference(WEB_RS))]
    bench, claimer, answer = claiming(pods)
    patches = bodies(drive(claimer, "default/web", answer, tables=bench.tables), Patch)
    assert [list(body["metadata"]) for body in patches] == [["ownerReferences", "uid"], ["uid", "ownerReferences"]]


# the live owner, the error text
OBSTACLES = {
    "it is being deleted": (DELETING, "default/web has just been deleted at 2026-01-01T00:00:00Z"),
    "it is another of that name": (
        {"metadata": {"name": "web", "namespace": "default", "uid": "new"}},
        "original ReplicaSet default/web is gone: got uid new, wanted uid-of-web",
    ),
    "it is gone": (NotFound('"web" not found'), 'can\'t recheck DeletionTimestamp: "web" not found'),
    "the server does not answer": (Unknown("timed out"), "can't recheck DeletionTimestamp: timed out"),
}


@pytest.mark.parametrize(("live", "why"), OBSTACLES.values(), ids=OBSTACLES)
def test_owner_that_may_be_deleted_adopts_nothing_but_releases(live: Object | Outcome, why: str) -> None:
    pods = [running_pod("a", labels=WEB), running_pod("b", labels=OTHER, owner=reference(WEB_RS))]
    bench, claimer, answer = claiming(pods, live=live)
    driven = drive(claimer, "default/web", answer, tables=bench.tables, raises=CommandError)
    assert said(driven.error) == f"can't adopt Pod default/a (uid-of-a): {why}"
    assert isinstance(driven.error.command, Get)
    assert [command.key for command in driven.of(Patch)] == ["default/b"]


# is it an adoption, its outcome, whether it fails the sync
PATCH_OUTCOMES = [
    (True, NotFound(), False),
    (True, Invalid(code=422), True),
    (True, Conflict(), True),
    (True, Unknown(), True),
    (False, NotFound(), False),
    (False, Invalid(code=422), False),
    (False, Invalid(code=400), True),
    (False, Forbidden(), True),
]


@pytest.mark.parametrize(("adopting", "outcome", "fails"), PATCH_OUTCOMES)
def test_outcome_of_a_patch_determines_the_failure_of_the_sync(adopting: bool, outcome: Outcome, fails: bool) -> None:
    candidate = running_pod("a", labels=WEB) if adopting else running_pod("a", labels=OTHER, owner=reference(WEB_RS))
    bench, claimer, answer = claiming([candidate])
    drive(
        claimer,
        "default/web",
        lambda command: outcome if isinstance(command, Patch) else answer(command),
        tables=bench.tables,
        raises=CommandError if fails else None,
    )
    assert claimer.kept == (None if fails else [])


def test_all_patches_are_sent_and_all_failures_raised() -> None:
    bench, claimer, answer = claiming([running_pod(name, labels=WEB) for name in ("a", "b", "c")])
    refusals = {"default/a": Forbidden("a: no"), "default/c": Conflict("c: no")}
    driven = drive(
        claimer,
        "default/web",
        lambda command: refusals.get(command.key) or answer(command),
        tables=bench.tables,
        raises=CommandError,
    )
    assert len(driven.of(Patch)) == 3
    assert said(driven.error) == "[a: no, c: no]"
    assert (driven.error.command.key, type(driven.error.failure)) == ("default/a", Forbidden)
