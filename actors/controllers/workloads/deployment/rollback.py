"""The rollback that old clients ask for with an annotation; `kubectl rollout undo` writes the old template itself.

Source: kubernetes v1.36 pkg/controller/deployment/rollback.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kcm.actors.controllers.workloads.deployment.annotations import (
    NEVER_COPIED,
    ROLLBACK_TO,
    copyable,
    with_annotations,
)
from kcm.actors.controllers.workloads.deployment.fields import section, template
from kcm.actors.controllers.workloads.deployment.revisions import last_revision, revision_of, same_template
from kcm.protocols.integers import parse_int
from kcm.protocols.messages.events import RecordType
from kcm.protocols.objects import Object, annotations_of, name_of
from kcm.protocols.semantic import without_hash_label


class Rollback(NamedTuple):
    """What a request comes to: the Deployment to write, without the request, and the event to record."""

    deployment: Object
    type: RecordType
    reason: str
    message: str


def requested_revision(deployment: Mapping[str, Any]) -> int | None:
    """The requested revision, 0 for the one before the last; None without a (valid) request."""
    return parse_int(annotations_of(deployment).get(ROLLBACK_TO))


def rollback_plan(deployment: Object, replica_sets: Sequence[Object], revision: int) -> Rollback:
    """Give the Deployment template and annotations of the ReplicaSet with this revision; 0 is the last but one."""
    kept = {name: value for name, value in annotations_of(deployment).items() if name != ROLLBACK_TO}
    cleared = with_annotations(deployment, kept)
    not_found = "DeploymentRollbackRevisionNotFound"
    if revision == 0:
        revision = last_revision(replica_sets)
        if revision == 0:
            return Rollback(cleared, "Warning", not_found, "Unable to find last revision.")
    target = next((each for each in replica_sets if revision_of(each) == revision), None)
    if target is None:
        return Rollback(cleared, "Warning", not_found, "Unable to find the revision to rollback to.")
    if same_template(deployment, target):
        return Rollback(
            cleared,
            "Warning",
            "DeploymentRollbackTemplateUnchanged",
            f'The rollback revision contains the same template as current deployment "{name_of(deployment)}"',
        )
    # The annotations go with the template: a change-cause describes the revision, and would otherwise be copied from
    # the Deployment to the ReplicaSet that is rolled back to.
    own = {name: value for name, value in kept.items() if name in NEVER_COPIED}
    rolled_back = with_annotations(cleared, {**own, **copyable(annotations_of(target))})
    rolled_back["spec"] = {**section(deployment, "spec"), "template": without_hash_label(template(target))}
    return Rollback(
        rolled_back,
        "Normal",
        "DeploymentRollback",
        f'Rolled back deployment "{name_of(deployment)}" to revision {revision}',
    )
