"""Writes of claims before and after those of pods, with their events."""

from __future__ import annotations

from typing import Any

from kcm.actors.controllers.workloads.statefulset.pod_control import ClaimTerminating
from kcm.actors.controllers.workloads.statefulset.spec import SPEC, sets_of_claim
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import bodies
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create, Delete, Update
from kcm.protocols.messages.outcomes import Conflict, Forbidden, Outcome
from kcm.protocols.objects import encode_object, name_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from tests.actors.controllers.workloads.statefulset.scenes import Scene, a_claim, a_reference, a_set, made, member

DELETE_BOTH = {"whenDeleted": "Delete", "whenScaled": "Delete"}
POD_CREATED = ("Normal", "SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful")


def claim_created(name: str) -> tuple[str, str, str]:
    return ("Normal", "SuccessfulCreate", f"Create Claim {name} Pod web-0 in StatefulSet web success")


def refusing(scene: Scene, resource: Any, type: Any = Create, outcome: Outcome | None = None) -> Any:
    def answer(command: Any) -> Outcome:
        if isinstance(command, type) and command.resource == resource.id and not command.subresource:
            return outcome or Forbidden("no")
        return scene.bench.accept(command)

    return answer


def owned_claims(driven: Any) -> dict[str, list[str]]:
    found = [c for c in driven.of(Update) if c.resource == PERSISTENT_VOLUME_CLAIMS.id]
    claims = [body for body in bodies(driven, Update) if body["kind"] == "PersistentVolumeClaim"]
    assert len(found) == len(claims)
    return {name_of(claim): [ref["kind"] for ref in claim["metadata"]["ownerReferences"]] for claim in claims}


def test_claims_are_created_before_their_pod() -> None:
    driven = Scene(a_set(1, claims=["data", "logs"])).sync()
    assert made(driven) == ["data-web-0", "logs-web-0", "web-0"]
    assert driven.events == [claim_created("data-web-0"), claim_created("logs-web-0"), POD_CREATED]


def test_existing_claims_are_used() -> None:
    driven = Scene(a_set(1, claims=["data", "logs"]), claims=[a_claim("data-web-0")]).sync()
    assert made(driven) == ["logs-web-0", "web-0"]


def test_pod_is_not_created_without_its_claim() -> None:
    scene = Scene(a_set(1, claims=["data"]))
    driven = scene.sync(refusing(scene, PERSISTENT_VOLUME_CLAIMS), raises=CommandError)
    assert made(driven) == ["data-web-0"]
    assert driven.events == [
        ("Warning", "FailedCreate", "Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: no"),
        (
            "Warning",
            "FailedCreate",
            "Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: no",
        ),
    ]


def test_terminating_claim_delays_the_pod() -> None:
    going = a_claim("data-web-0", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])
    driven = Scene(a_set(1, claims=["data"]), claims=[going]).sync(raises=ClaimTerminating)
    assert made(driven) == []
    why = "Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted"
    assert driven.events == [("Warning", "FailedCreate", why)]


def test_claim_deleted_with_a_former_pod_delays_the_new_one() -> None:
    claim = a_claim("data-web-0", a_reference("Pod", "web-0", "former"))
    obj = a_set(1, claims=["data"], persistentVolumeClaimRetentionPolicy=DELETE_BOTH)
    assert made(Scene(obj, claims=[claim]).sync()) == []
    assert made(Scene(a_set(1, claims=["data"]), claims=[claim]).sync()) == ["web-0"]


def test_deletion_of_a_claim_enqueues_the_set() -> None:
    scene = Scene(a_set(1))
    for name, keys in {"data-web-0": ["default/web"], "data-x-web-12": ["default/web"], "data-other-0": []}.items():
        raw = encode_object(a_claim(name))
        change = Change(type="DELETED", key=f"default/{name}", raw=raw, controller=None)
        assert list(sets_of_claim(change, scene.bench.tables)) == keys
    assert any(watch.resource == PERSISTENT_VOLUME_CLAIMS for watch in SPEC.watches)


def test_missing_claim_of_pending_pod_is_created_again() -> None:
    pod = member(0, claims=["data"], phase="Pending", ready=False)
    assert made(Scene(a_set(1, claims=["data"]), pod).sync()) == ["data-web-0"]


def test_claim_deleted_with_its_set_is_created_with_its_owner() -> None:
    """The claim cannot outlive the set between two writes, and no second write is needed."""
    driven = Scene(a_set(1, claims=["data"], persistentVolumeClaimRetentionPolicy=DELETE_BOTH)).sync()
    claim, _pod = bodies(driven, Create)[-2:]
    owners = [(each["kind"], each["uid"]) for each in claim["metadata"]["ownerReferences"]]
    assert owners == [("StatefulSet", "uid-of-web")]
    assert owned_claims(driven) == {}


def test_existing_claims_get_their_owner_even_if_the_pod_is_rejected() -> None:
    obj = a_set(1, claims=["data"], persistentVolumeClaimRetentionPolicy=DELETE_BOTH)
    assert owned_claims(Scene(obj, claims=[a_claim("data-web-0")]).sync()) == {"data-web-0": ["StatefulSet"]}
    scene = Scene(obj, claims=[a_claim("data-web-0")])
    driven = scene.sync(refusing(scene, PODS), raises=CommandError)
    assert owned_claims(driven) == {"data-web-0": ["StatefulSet"]}


def test_changed_policy_changes_the_owners_of_claims() -> None:
    obj = a_set(1, claims=["data"], persistentVolumeClaimRetentionPolicy=DELETE_BOTH)
    pods = [member(0, claims=["data"]), member(1, claims=["data"])]
    driven = Scene(obj, *pods, claims=[a_claim("data-web-0"), a_claim("data-web-1")]).sync()
    assert owned_claims(driven) == {"data-web-0": ["StatefulSet"], "data-web-1": ["Pod"]}
    assert driven.events[0] == ("Normal", "SuccessfulUpdate", "Update Pod web-0 in StatefulSet web successful")


def test_claim_of_another_controller_has_an_event_and_is_kept() -> None:
    obj = a_set(1, claims=["data"], persistentVolumeClaimRetentionPolicy=DELETE_BOTH)
    claim = a_claim("data-web-0", a_reference("ReplicaSet", "other"))
    driven = Scene(obj, claims=[claim]).sync()
    assert owned_claims(driven) == {}
    text = (
        "PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, "
        "the retention policy is ignored for this claim"
    )
    assert driven.events == [("Warning", "ConflictingController", text), POD_CREATED]


def test_failed_claim_owner_update_has_an_event() -> None:
    obj = a_set(1, claims=["data"], persistentVolumeClaimRetentionPolicy=DELETE_BOTH)
    scene = Scene(obj, claims=[a_claim("data-web-0")])
    driven = scene.sync(refusing(scene, PERSISTENT_VOLUME_CLAIMS, Update), raises=CommandError)
    why = "could not update claim data-web-0 for delete policy ownerRefs: no"
    assert ("Warning", "FailedUpdate", f"Update Pod web-0 in StatefulSet web failed error: {why}") in driven.events


def test_claim_gets_its_owner_before_the_pod_is_deleted() -> None:
    obj = a_set(0, claims=["data"], persistentVolumeClaimRetentionPolicy=DELETE_BOTH)
    scene = Scene(obj, member(0, claims=["data"]), claims=[a_claim("data-web-0")])
    driven = scene.sync(refusing(scene, PERSISTENT_VOLUME_CLAIMS, Update), raises=CommandError)
    assert (driven.of(Delete), driven.events) == ([], [])
    driven = scene.sync()
    assert owned_claims(driven) == {"data-web-0": ["Pod"]}
    assert [command.key for command in driven.of(Delete)] == ["default/web-0"]


def test_missing_pod_label_is_restored() -> None:
    lost = member(0, labels={"app": "web", "controller-revision-hash": "web-x"})
    driven = Scene(a_set(1), lost).sync()
    (pod,) = [body for body in bodies(driven, Update) if body["kind"] == "Pod"]
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-0"
    assert ("Normal", "SuccessfulUpdate", "Update Pod web-0 in StatefulSet web successful") in driven.events


def test_conflicting_pod_update_is_tried_four_times() -> None:
    scene = Scene(a_set(1), member(0, labels={"app": "web"}))
    driven = scene.sync(refusing(scene, PODS, Update, Conflict("newer")), raises=CommandError)
    assert len([c for c in driven.of(Update) if c.resource == PODS.id]) == 4
    assert driven.events == [("Warning", "FailedUpdate", "Update Pod web-0 in StatefulSet web failed error: newer")]
