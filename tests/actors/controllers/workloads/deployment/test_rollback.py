from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcm.actors.controllers.workloads.deployment.objects import Deployment, ReplicaSet, parse_replica_set
from kcm.actors.controllers.workloads.deployment.revisions import requested_revision, rollback_plan
from kcm.protocols.objects import annotations_of
from tests.actors.controllers.workloads.deployment.objects import parsed_deployment, parsed_replica_set, template

REQUEST = "deprecated.deployment.rollback.to"
NOT_FOUND = "DeploymentRollbackRevisionNotFound"


def asking(revision: str, **annotations: str) -> Deployment:
    return parsed_deployment(template=template("web:2"), annotations={REQUEST: revision, **annotations})


FIRST = parsed_replica_set("web-1", revision=1, annotations={"kubernetes.io/change-cause": "create"})
SECOND = parsed_replica_set("web-2", revision=2, image="web:2")


@pytest.mark.parametrize(
    "text, revision",
    [("3", 3), ("0", 0), ("-1", -1), ("+2", 2), ("", None), ("last", None), ("1.5", None), (None, None)],
)
def test_request_must_be_an_integer(text: str | None, revision: int | None) -> None:
    assert requested_revision({} if text is None else {REQUEST: text}) == revision


@pytest.mark.parametrize("revision", [0, 1])
def test_rollback_restores_template_and_annotations_and_removes_the_request(revision: int) -> None:
    d = asking(
        str(revision),
        **{
            "kubernetes.io/change-cause": "edit",
            "added": "later",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "deployment.kubernetes.io/revision": "2",
        },
    )
    spec = {**FIRST.obj["spec"], "template": template(**{"pod-template-hash": "abc"})}
    hashed = parse_replica_set({**FIRST.obj, "spec": spec})
    rollback = rollback_plan(d, [hashed, SECOND], revision)
    assert rollback[1:] == ("Normal", "DeploymentRollback", 'Rolled back deployment "web" to revision 1')
    assert rollback.deployment["spec"] == {**d.obj["spec"], "template": template("web:1")}
    assert annotations_of(rollback.deployment) == {
        "kubernetes.io/change-cause": "create",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "deployment.kubernetes.io/revision": "2",
    }


@pytest.mark.parametrize(
    "revision, sets, reason, message",
    [
        (0, [SECOND], NOT_FOUND, "Unable to find last revision."),
        (7, [FIRST, SECOND], NOT_FOUND, "Unable to find the revision to rollback to."),
        (
            2,
            [FIRST, SECOND],
            "DeploymentRollbackTemplateUnchanged",
            'The rollback revision contains the same template as current deployment "web"',
        ),
    ],
)
def test_impossible_request_is_removed_with_a_warning(
    revision: int, sets: Sequence[ReplicaSet], reason: str, message: str
) -> None:
    d = asking(str(revision))
    rollback = rollback_plan(d, sets, revision)
    assert rollback[1:] == ("Warning", reason, message)
    assert rollback.deployment == {**d.obj, "metadata": {**d.obj["metadata"], "annotations": {}}}
