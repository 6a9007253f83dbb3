"""Rollbacks that an annotation requests."""

from __future__ import annotations

import pytest

from kcm.protocols.messages.commands import Create, Patch, Update
from kcm.protocols.objects import annotations_of
from tests.actors.controllers.workloads.deployment.cluster import Cluster

REQUEST = "deprecated.deployment.rollback.to"


@pytest.fixture
def web() -> Cluster:
    cluster = Cluster()
    cluster.create_deployment(2)
    for image in ("web:1", "web:2", "web:3"):
        cluster.annotate(cause=image)
        cluster.set_image(image)
        cluster.roll_out()
    return cluster


@pytest.mark.parametrize("asked, revision", [("0", 2), ("1", 1)])
def test_rollback_restores_the_template_as_a_new_revision(web: Cluster, asked: str, revision: int) -> None:
    web.annotate(**{REQUEST: asked})
    events = web.roll_out()
    assert events[0] == ("Normal", "DeploymentRollback", f'Rolled back deployment "web" to revision {revision}')
    assert web.images()[4] == f"web:{revision}"
    assert web.sizes()[4] == 2
    assert REQUEST not in annotations_of(web.deployment)
    assert annotations_of(web.deployment)["cause"] == f"web:{revision}"
    assert annotations_of(web.deployment)["deployment.kubernetes.io/revision"] == "4"


@pytest.mark.parametrize(
    "asked, reason, message",
    [
        ("9", "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."),
        (
            "3",
            "DeploymentRollbackTemplateUnchanged",
            'The rollback revision contains the same template as current deployment "web"',
        ),
    ],
)
def test_impossible_request_is_removed_with_a_warning(web: Cluster, asked: str, reason: str, message: str) -> None:
    web.annotate(**{REQUEST: asked})
    assert web.settle() == [("Warning", reason, message)]
    assert REQUEST not in annotations_of(web.deployment)
    assert web.sizes() == {1: 0, 2: 0, 3: 2}


def test_rollback_without_previous_revision_gets_a_warning() -> None:
    web = Cluster()
    web.create_deployment(2)
    web.annotate(**{REQUEST: "0"})
    events = web.settle()
    assert ("Warning", "DeploymentRollbackRevisionNotFound", "Unable to find last revision.") in events
    assert web.sizes() == {1: 2}


def test_invalid_rollback_request_is_ignored(web: Cluster) -> None:
    web.annotate(**{REQUEST: "yesterday"})
    assert web.settle() == []
    assert annotations_of(web.deployment)[REQUEST] == "yesterday"


def test_rollback_keeps_a_simultaneous_new_size(web: Cluster) -> None:
    web.annotate(**{REQUEST: "2"})
    web.set(replicas=5)
    commands = web.sync().of(Create, Update, Patch)
    assert [(command.resource, command.subresource) for command in commands] == [("apps/v1/deployments", "")]
    web.roll_out()
    assert web.sizes() == {1: 0, 3: 0, 4: 5}


def test_current_template_gets_its_revision_before_the_rollback(web: Cluster) -> None:
    web.set_image("web:4")
    web.annotate(**{REQUEST: "0"})
    events = web.roll_out()
    assert ("Normal", "DeploymentRollback", 'Rolled back deployment "web" to revision 3') in events
    assert web.images() == {1: "web:1", 2: "web:2", 4: "web:4", 5: "web:3"}
    assert web.sizes() == {1: 0, 2: 0, 4: 0, 5: 2}
