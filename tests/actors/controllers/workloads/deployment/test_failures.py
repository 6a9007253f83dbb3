"""Failures: rejected writes, collisions and malformed objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kcm.actors.controllers.workloads.deployment.objects import parse_deployment
from kcm.actors.controllers.workloads.deployment.reconciler import DeploymentReconciler
from kcm.actors.controllers.workloads.deployment.revisions import new_replica_set
from kcm.actors.simulation.driver import Bench, bodies, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Update
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Forbidden,
    NotFound,
    Outcome,
    Refused,
    ServerFailure,
    Unknown,
)
from kcm.protocols.objects import Object, decode_object, encode_object, name_of
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS, Resource
from tests.actors.controllers.workloads.deployment.cluster import Cluster
from tests.actors.controllers.workloads.deployment.objects import web_deployment, web_replica_set
from tests.support.refusals import NAMESPACE_TERMINATING

QUOTA = Forbidden('replicasets.apps "web-x" is forbidden: exceeded quota: small')


@pytest.fixture
def web() -> Cluster:
    cluster = Cluster()
    cluster.create_deployment(3)
    return cluster


def refusing(
    cluster: Cluster, outcome: Outcome, *, to: type[Any], resource: Resource = REPLICASETS
) -> Callable[..., Any]:
    """Return a server stub in which every command of the type has this outcome, and is not carried out."""

    def answer(command: Command) -> Outcome:
        if isinstance(command, to) and command.resource == resource.id and not getattr(command, "subresource", ""):
            return outcome
        return cluster.answer(command)

    return answer


# Creating the new ReplicaSet.


def test_failed_creation_has_condition_and_event_and_is_retried(web: Cluster) -> None:
    driven = web.sync(answer=refusing(web, QUOTA, to=Create), raises=CommandError)
    name = name_of(bodies(driven, Create)[0])
    message = f'Failed to create new replica set "{name}": {QUOTA.message}'
    assert driven.events == [("Warning", "ReplicaSetCreateError", message)]
    assert web.condition() == ("False", "ReplicaSetCreateError", message)
    assert driven.error.failure is QUOTA

    again = web.sync(answer=refusing(web, QUOTA, to=Create), raises=CommandError)
    assert again.of(Update) == []
    assert again.events == driven.events
    web.roll_out()
    assert web.condition()[1] == "NewReplicaSetAvailable"


def test_failed_creation_without_deadline_has_only_an_event() -> None:
    web = Cluster()
    web.create_deployment(3, progressDeadlineSeconds=2147483647)
    driven = web.sync(answer=refusing(web, QUOTA, to=Create), raises=CommandError)
    assert len(driven.events) == 1
    assert driven.of(Update) == []


def test_terminating_namespace_causes_no_event_and_no_retry(web: Cluster) -> None:
    driven = web.sync(answer=refusing(web, NAMESPACE_TERMINATING, to=Create))
    assert (driven.events, driven.result, driven.of(Update)) == ([], None, [])


def test_unsent_write_causes_no_event(web: Cluster) -> None:
    driven = web.sync(answer=refusing(web, Refused("the lease is not held"), to=Create), raises=CommandError)
    assert (driven.events, driven.of(Update)) == ([], [])


def test_creation_with_unknown_outcome_is_not_repeated_under_another_name(web: Cluster) -> None:
    def lost(command: Command) -> Outcome:
        outcome = web.answer(command)
        return Unknown("timed out") if isinstance(command, Create) else outcome

    web.sync(answer=lost, raises=CommandError)
    (made,) = web.all(REPLICASETS)
    assert [command.key for command in web.reconcile().of(Get)] == [f"default/{name_of(made)}"]
    web.roll_out()
    assert web.sizes() == {1: 3}
    assert "collisionCount" not in web.deployment["status"]


def test_replica_set_that_appears_during_its_creation_is_used(web: Cluster) -> None:
    web.sync()
    made = web.all(REPLICASETS)[0]
    web.restart()
    web.set_status({})
    web.edit(lambda obj: obj["metadata"].pop("annotations"))
    web.must(Delete(REPLICASETS.id, "default/" + name_of(made)))
    web.observe()

    def seen(command: Command) -> Outcome:
        if isinstance(command, Create):
            web.must(command)
            web.observe(REPLICASETS)
            return AlreadyExists("already exists")
        return web.answer(command)

    driven = web.reconcile(answer=seen)
    assert driven.events == []
    assert web.deployment["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
    assert [each["type"] for each in web.deployment["status"]["conditions"]] == ["Available"]
    web.roll_out()
    assert web.sizes() == {1: 3}


def test_name_whose_owner_cannot_be_read_is_not_a_collision(web: Cluster) -> None:
    web.observe()
    web.must(Create(REPLICASETS.id, "default", encode_object(new_replica_set(parse_deployment(web.deployment), []))))
    driven = web.reconcile(answer=refusing(web, Refused("connection refused"), to=Get), raises=CommandError)
    assert isinstance(driven.error.failure, Refused)
    assert "collisionCount" not in web.deployment["status"]


def test_replica_set_that_only_the_cache_shows_is_not_a_collision(web: Cluster) -> None:
    """The Deployment was replaced: its ReplicaSet is not in the cache yet, which still has that of its predecessor."""
    web.roll_out()
    web.must(Delete(DEPLOYMENTS.id, "default/web"))
    web.create_deployment(3)
    web.observe(DEPLOYMENTS)
    web.must(Create(REPLICASETS.id, "default", encode_object(new_replica_set(parse_deployment(web.deployment), []))))
    web.reconcile()
    assert "collisionCount" not in web.deployment["status"]
    web.roll_out()
    assert web.sizes() == {1: 3}


@pytest.mark.parametrize("ours", [False, True])
def test_existing_replica_set_of_the_name_is_a_collision_and_changes_the_name(web: Cluster, ours: bool) -> None:
    name = name_of(new_replica_set(parse_deployment(web.deployment), []))
    if ours:  # owned by us and selected, but of another template
        squatter = web_replica_set(name, image="web:0", owner=web.deployment)
    else:
        squatter = web_replica_set(name, labels={"app": "other"})
    del squatter["metadata"]["uid"]
    web.must(Create(REPLICASETS.id, "default", encode_object(squatter)))
    driven = web.sync(raises=CommandError)
    assert isinstance(driven.error.failure, AlreadyExists)
    assert web.deployment["status"]["collisionCount"] == 1
    assert driven.events == []
    web.roll_out()
    (created,) = [each for each in web.all(REPLICASETS) if name_of(each) != name]
    assert created["spec"]["replicas"] == 3
    assert web.deployment["status"]["collisionCount"] == 1


# Other writes.


@pytest.mark.parametrize("subresource", ["", "status"])
def test_conflict_is_raised_and_the_next_sync_succeeds(web: Cluster, subresource: str) -> None:
    web.roll_out()
    web.set_image("web:2")
    web.settle()
    web.run_replica_sets()
    web.make_ready()
    web.run_replica_sets()
    web.observe()
    if subresource:
        web.annotate(touched="by somebody")
    else:
        for each in web.all(REPLICASETS):
            web.edit(lambda obj: obj["metadata"]["annotations"].update(touched="yes"), REPLICASETS, name_of(each))
    driven = web.reconcile(raises=CommandError)
    assert isinstance(driven.error.failure, Conflict)
    assert driven.error.command.subresource == subresource
    web.roll_out()
    assert web.sizes() == {1: 0, 2: 3}


def test_failed_scale_down_is_retried_after_the_status_write(web: Cluster) -> None:
    web.roll_out()
    web.set_image("web:2")
    web.settle()
    web.run_replica_sets()
    web.make_ready()
    web.run_replica_sets()
    failure = ServerFailure("etcd is away")
    driven = web.sync(answer=refusing(web, failure, to=Update), raises=CommandError)
    assert driven.error.failure is failure
    assert web.deployment["status"]["updatedReplicas"] == 1
    assert web.condition()[1] == "ReplicaSetUpdated"
    web.roll_out()
    assert web.sizes() == {1: 0, 2: 3}


@pytest.mark.parametrize("outcome, raises", [(NotFound("gone"), None), (ServerFailure("away"), CommandError)])
def test_deletion_fails_unless_the_replica_set_is_already_deleted(
    web: Cluster, outcome: Outcome, raises: type[Any] | None
) -> None:
    web.roll_out()
    web.set_image("web:2")
    web.roll_out()
    web.set(revisionHistoryLimit=0)
    web.sync()  # writes observedGeneration
    driven = web.sync(answer=refusing(web, outcome, to=Delete), raises=raises)
    (command,) = driven.of(Delete)
    assert command.uid == web.replica_sets()[1]["metadata"]["uid"]


# Malformed objects, which validation rejects.


def bench_of(*deployments: Object, replica_sets: Sequence[Object] = ()) -> tuple[Bench, DeploymentReconciler]:
    bench = Bench({DEPLOYMENTS: deployments, REPLICASETS: replica_sets, PODS: []})
    reconciler = DeploymentReconciler(tables=bench.tables, clock=bench.clock)
    return bench, reconciler


OTHER = web_deployment(meta={"name": "other", "uid": "uid-of-other"})


@pytest.mark.parametrize(
    "malformed, complaint",
    [
        (web_deployment(max_surge="oops"), "default/web: spec.strategy.rollingUpdate: .*'oops'"),
        (web_deployment(max_unavailable=[]), "default/web: spec.strategy.rollingUpdate: "),
        (web_deployment(strategy={"type": "Canary"}), "default/web: unexpected deployment strategy type: Canary"),
        (web_deployment(strategy=None), "default/web: unexpected deployment strategy type: $"),
        (
            web_deployment(selector={"matchExpressions": [{"key": "app", "operator": "Like", "values": ["w%"]}]}),
            "deployment default/web has invalid label selector: 'Like' is not a valid label selector operator",
        ),
        (web_deployment(selector=None), "deployment default/web has invalid label selector: None"),
        (web_deployment(selector="app=web"), "deployment default/web has invalid label selector: 'app=web'"),
        (
            web_deployment(selector={"matchLabels": {"app": "other"}}),
            "deployment default/web: its selector does not match its template's labels",
        ),
        (web_deployment(replicas="three"), "default/web: spec.replicas is not a whole number: 'three'"),
        (web_deployment(template=[]), "default/web: spec.template is not a pod template"),
        (
            web_deployment(progressDeadlineSeconds="soon"),
            "default/web: spec.progressDeadlineSeconds is not a whole number",
        ),
        ({**web_deployment(), "spec": 7}, "default/web: spec is not an object: 7"),
        ({**web_deployment(), "status": "fine"}, "default/web: status is not an object: 'fine'"),
    ],
)
def test_malformed_deployment_is_reported_and_does_not_affect_others(malformed: Object, complaint: str) -> None:
    bench, reconciler = bench_of(malformed, OTHER)
    driven = drive(reconciler, "default/web", bench.accept, tables=bench.tables, raises=ValueError)
    assert driven.commands == []
    with pytest.raises(ValueError, match=complaint):
        raise driven.error
    other = drive(reconciler, "default/other", bench.accept, tables=bench.tables)
    assert len(other.of(Create)) == 1


def test_malformed_replica_set_is_reported() -> None:
    malformed = web_replica_set("web-1", owner=web_deployment())
    malformed["spec"]["replicas"] = "many"
    bench, reconciler = bench_of(web_deployment(), replica_sets=[malformed])
    driven = drive(reconciler, "default/web", bench.accept, tables=bench.tables, raises=ValueError)
    assert str(driven.error) == "default/web-1: spec.replicas is not a whole number: 'many'"


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {}}, {"matchExpressions": []}])
@pytest.mark.parametrize("generation, observed, is_written", [(0, 0, False), (2, 1, True), (2, 2, False)])
def test_deployment_with_empty_selector_gets_a_warning_and_is_ignored(
    selector: Object, generation: int, observed: int, is_written: bool
) -> None:
    all_selecting = web_deployment(
        selector=selector,
        meta={"generation": generation},
        status={"observedGeneration": observed, "replicas": 7},
    )
    bench, reconciler = bench_of(all_selecting, replica_sets=[web_replica_set("web-1", owner=all_selecting)])
    driven = drive(reconciler, "default/web", bench.accept, tables=bench.tables)
    text = "This deployment is selecting all pods. A non-empty selector is required."
    assert driven.events == [("Warning", "SelectingAll", text)]
    assert [decode_object(command.body)["status"] for command in driven.commands] == (
        [{"observedGeneration": generation, "replicas": 7}] if is_written else []
    )
