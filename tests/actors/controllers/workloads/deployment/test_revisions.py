from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.actors.controllers.workloads.deployment.objects import Deployment, ReplicaSet, parse_replica_set
from kcm.actors.controllers.workloads.deployment.revisions import (
    Templates,
    comparable,
    extended_history,
    is_new_replica_set,
    last_revision,
    new_replica_set,
    next_revision,
    replica_set_name,
    same_template,
    split_new_and_old,
    synced_replica_set,
)
from kcm.protocols.objects import Object, annotations_of, decode_object, encode_object, name_of
from tests.actors.controllers.workloads.deployment.objects import (
    RECREATE,
    parsed_deployment,
    parsed_replica_set,
    template,
)

RECORDED = orjson.loads(
    (Path(__file__).parents[4] / "protocols/hashed_templates.json").read_bytes()
)  # by upstream's hash
REVISION, HISTORY = "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"


def of(pod_template: Object) -> Deployment:
    return parsed_deployment(template=pod_template)


@pytest.mark.parametrize(
    "first, second, same",
    [
        (template(), template(), True),
        (template(**{"pod-template-hash": "a"}), template(**{"pod-template-hash": "b"}), True),
        (template(**{"pod-template-hash": "a"}), template(), True),
        (template(something="else"), template(), False),
        (template(something="else", **{"pod-template-hash": "a"}), template(), False),
        (template("web:1"), template("web:2"), False),
        ({"metadata": {"labels": {}}, "spec": {}}, {"metadata": {}, "spec": {}}, True),
        ({"metadata": {"labels": {"pod-template-hash": "a"}}}, {"metadata": {}}, True),
        ({"metadata": {"creationTimestamp": None}, "spec": {}}, {"spec": {}}, True),
        ({"spec": {"volumes": [], "nodeName": ""}}, {"spec": {}}, True),
    ],
)
def test_templates_are_compared_semantically_without_the_hash(first: Object, second: Object, same: bool) -> None:
    assert same_template(of(first), of(second)) is same
    assert same_template(of(second), of(first)) is same


def test_new_replica_set_is_the_oldest_with_the_template() -> None:
    newest, old, twin = (
        parsed_replica_set("v3", age=1),
        parsed_replica_set("v1", age=9, image="web:0"),
        parsed_replica_set("v2", age=2),
    )
    assert split_new_and_old(parsed_deployment(), [newest, old, twin]) == (twin, [old, newest])
    assert split_new_and_old(parsed_deployment(template=template("web:9")), [newest, old]) == (None, [old, newest])
    assert split_new_and_old(parsed_deployment(), []) == (None, [])


def test_cached_templates_follow_the_versions_of_objects() -> None:
    templates = Templates()
    known, changed = parsed_replica_set("v1", image="web:1"), parsed_replica_set("v1", image="web:2")
    assert known.uid == changed.uid
    for each in (known, known, changed, known):
        assert templates.comparable(each) == comparable(each)


def test_template_cache_is_bounded() -> None:
    templates = Templates()
    many = [parsed_replica_set(f"v{number}", image=f"web:{number}") for number in range(2 * Templates.MAX_SIZE)]
    assert [templates.comparable(each) for each in many] == [comparable(each) for each in many]
    assert len(templates) <= Templates.MAX_SIZE


def test_first_by_name_is_new_among_equally_old_replica_sets() -> None:
    first, second = parsed_replica_set("v1"), parsed_replica_set("v2")
    assert split_new_and_old(parsed_deployment(), [second, first]) == (first, [second])


@pytest.mark.parametrize("text, revision", [("7", 7), (None, 0), ("", 0), ("two", None), ("1.0", None)])
def test_revision_is_parsed_and_0_if_missing(text: str | None, revision: int | None) -> None:
    annotations = {} if text is None else {REVISION: text}
    assert parsed_replica_set("v1", annotations=annotations).revision == revision


def numbered(*revisions: int | str | None) -> list[ReplicaSet]:
    return [parsed_replica_set(f"v{i}", revision=revision) for i, revision in enumerate(revisions)]


@pytest.mark.parametrize(
    "revisions, following, last",
    [
        ([], 1, 0),
        ([4], 5, 0),
        ([1, 4, 2], 5, 2),
        ([4, 4], 5, 4),
        ([3, "x", 7], 8, 3),
        ([None, 2], 3, 0),
        (["x"], 1, 0),
    ],
)
def test_next_revision_is_above_the_highest_and_last_is_the_second_highest(
    revisions: Any, following: int, last: int
) -> None:
    sets = numbered(*revisions)
    assert next_revision(sets) == following
    assert last_revision(sets) == last


def test_rollback_target_gets_the_next_revision_and_keeps_its_history() -> None:
    new = parsed_replica_set("v1", revision=1)
    for revision, history in [(3, "1"), (5, "1,3"), (8, "1,3,5")]:
        synced = synced_replica_set(parsed_deployment(), new, revision)
        assert synced is not None
        new = parse_replica_set(synced)
        assert new.annotations == {REVISION: str(revision), HISTORY: history}


@pytest.mark.parametrize("own", [3, 4])
def test_revision_never_decreases(own: int) -> None:
    assert synced_replica_set(parsed_deployment(), parsed_replica_set("v1", revision=own), 3) is None


def test_first_revision_has_no_history() -> None:
    assert annotations_of(synced_replica_set(parsed_deployment(), parsed_replica_set("v1"), 1)) == {REVISION: "1"}


def test_malformed_revision_is_kept() -> None:
    assert (
        synced_replica_set(parsed_deployment(annotations={"a": "b"}), parsed_replica_set("v1", revision="two"), 3)
        is None
    )


def test_annotations_are_copied_and_others_kept() -> None:
    own = {
        "deployment.kubernetes.io/revision": "9",
        "deployment.kubernetes.io/revision-history": "9",
        "deployment.kubernetes.io/desired-replicas": "9",
        "deployment.kubernetes.io/max-replicas": "9",
        "deprecated.deployment.rollback.to": "9",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    new = parsed_replica_set("v1", revision=1, annotations={"kept": "1", "changed": "1"})
    synced = synced_replica_set(parsed_deployment(annotations={"changed": "2", "added": "2", **own}), new, 1)
    assert annotations_of(synced) == {"kept": "1", "changed": "2", "added": "2", REVISION: "1"}
    assert new.annotations == {"kept": "1", "changed": "1", REVISION: "1"}


def test_min_ready_seconds_are_copied() -> None:
    new = parsed_replica_set("v1", revision=1)
    synced = synced_replica_set(parsed_deployment(minReadySeconds=5), new, 1)
    assert synced["spec"] == {**new.obj["spec"], "minReadySeconds": 5}
    written = parse_replica_set(synced)
    assert synced_replica_set(parsed_deployment(minReadySeconds=5), written, 1) is None
    assert synced_replica_set(parsed_deployment(), written, 1)["spec"]["minReadySeconds"] == 0


def test_history_annotation_is_limited_in_length() -> None:
    history = ""
    for revision in range(10, 20):
        history = extended_history(history, str(revision), at_most=5)
        assert history == (f"{revision - 1},{revision}" if revision > 10 else "10")


@given(st.lists(st.integers(0, 10**6), max_size=40), st.integers(0, 10**6), st.integers(7, 100))
def test_history_annotation_keeps_the_latest_revisions(revisions: Sequence[int], latest: int, at_most: int) -> None:
    history = extended_history(",".join(map(str, revisions)), str(latest), at_most=at_most)
    assert len(history) <= at_most
    assert [*map(str, revisions), str(latest)][-len(history.split(",")) :] == history.split(",")


def test_fields_of_the_created_replica_set() -> None:
    d = parsed_deployment(
        3,
        max_surge=1,
        annotations={"note": "x", REVISION: "7"},
        minReadySeconds=4,
        selector={
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "app", "operator": "Exists"}],
        },
    )
    made = new_replica_set(d, [parsed_replica_set("v1", 2, revision=7)])
    hash = made["metadata"]["labels"]["pod-template-hash"]
    assert made == {
        "metadata": {
            "name": f"web-{hash}",
            "namespace": "default",
            "labels": {"app": "web", "pod-template-hash": hash},
            "annotations": {
                "note": "x",
                "deployment.kubernetes.io/desired-replicas": "3",
                "deployment.kubernetes.io/max-replicas": "4",
                REVISION: "8",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": "web",
                    "uid": "uid-of-web",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "replicas": 2,
            "minReadySeconds": 4,
            "selector": {
                "matchLabels": {"app": "web", "pod-template-hash": hash},
                "matchExpressions": [{"key": "app", "operator": "Exists"}],
            },
            "template": template(**{"pod-template-hash": hash}),
        },
    }
    assert d.template == template()


@pytest.mark.parametrize("hash", RECORDED)
def test_new_replica_set_has_upstreams_name_label_and_selector(hash: str) -> None:
    pod_template = RECORDED[hash]
    made = new_replica_set(parsed_deployment(template=pod_template), [])
    assert name_of(made) == f"web-{hash}"
    assert made["metadata"]["labels"]["pod-template-hash"] == hash
    assert made["spec"]["selector"]["matchLabels"]["pod-template-hash"] == hash
    assert made["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] == hash


@pytest.mark.parametrize("hash", RECORDED)
def test_replica_set_that_another_release_named_otherwise_is_the_new_one(hash: str) -> None:
    deployment = parsed_deployment(template=RECORDED[hash])
    text = encode_object(new_replica_set(deployment, [])).decode()
    named_otherwise = parse_replica_set(decode_object(text.replace(hash, "57fbd947fd").encode()))
    assert split_new_and_old(deployment, [named_otherwise]) == (named_otherwise, [])


def test_name_depends_on_template_and_collisions() -> None:
    names = {
        name_of(new_replica_set(each, []))
        for each in (
            parsed_deployment(3),
            parsed_deployment(5, strategy=RECREATE),
            parsed_deployment(3, status={"collisionCount": 0}),
            parsed_deployment(3, status={"collisionCount": 1}),
            parsed_deployment(3, template=template("web:2")),
        )
    }
    assert len(names) == 4


@pytest.mark.parametrize("length, kept", [(10, 10), (242, 242), (243, 242), (253, 242)])
def test_long_name_is_truncated(length: int, kept: int) -> None:
    assert replica_set_name("d" * length, "1234567890") == "d" * kept + "-1234567890"


def test_existing_replica_set_matches_by_owner_and_template() -> None:
    d = parsed_deployment()
    assert is_new_replica_set(d, parsed_replica_set("v1", owner=d.obj))
    assert not is_new_replica_set(d, parsed_replica_set("v1"))
    assert not is_new_replica_set(d, parsed_replica_set("v1", owner=d.obj, image="web:2"))
    assert not is_new_replica_set(d, parsed_replica_set("v1", owner=parsed_deployment(meta={"uid": "another"}).obj))
