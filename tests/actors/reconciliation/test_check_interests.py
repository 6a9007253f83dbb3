"""A watch that names a fact or an index that its table does not have is refused before the start."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.hollow.specs import hollow_specs
from kcm.actors.reconciliation import Interest, Watch, itself
from kcm.actors.reconciliation.derived import PODS_BY_NODE, check_interests
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.resources import DEPLOYMENTS, PODS, Resource


def spec(resource: Resource, interest: Interest) -> ControllerSpec:
    return ControllerSpec(
        name="one-controller",
        build=lambda _context: None,
        queues=(Queue(watches=(Watch(resource, to=itself, interest=interest),)),),
        indexes=(PODS_BY_NODE,),
    )


def test_our_own_name_none() -> None:
    check_interests((*BUILT_IN, *hollow_specs(nodes=2, zones=1, volumes=True, devices=True)))


@pytest.mark.parametrize(
    "resource, interest, error",
    [
        (PODS, Interest(changed=("node", "nodeName")), "one-controller watches pods by an unknown fact: 'nodeName'"),
        (DEPLOYMENTS, Interest(having=(("phase", ("Failed",)),)), "by an unknown fact: 'phase'"),
        (PODS, Interest(indexed=(("zone", "a"),)), "by an unknown index: 'zone'"),
    ],
)
def test_an_unknown_name_is_refused(resource: Resource, interest: Interest, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        check_interests((spec(resource, interest),))


def test_facts_indexes_and_namespaces_are_known() -> None:
    interest = Interest(changed=("node", "ready_since"), indexed=(("node", "n1"), ("namespace", "default")))
    check_interests((spec(PODS, interest),))
