"""A server that refuses one write of a DaemonSet, or does not answer it: what is there in the end is the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from kcm.protocols.messages.commands import Delete
from kcm.protocols.messages.outcomes import (
    CommandError,
    Outcome,
)
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS
from tests.actors.controllers.workloads.daemonset.scene import Scene, daemon_set, nodes, owned, target
from tests.support.refusals import OneWriteFails, with_each_failure

Build = Callable[..., Scene]


def settle(scene: Build, outcome: Outcome | None, number: int) -> tuple[Scene, bool]:
    """The DaemonSet at rest, where this write failed so, and whether there were so many.

    A pod is adopted, one of an older template goes, one is too many, two nodes have none.
    """
    pods = [owned("orphan", "n0", ownerReferences=[]), owned("old", "n1"), owned("old-too", "n1")]
    one = scene(daemon_set(unavailable=5), nodes=nodes(4), pods=pods)
    answer = OneWriteFails(outcome, number, one.bench.accept)
    for _ in range(6):
        with suppress(CommandError):
            driven = one.sync(answer)
            gone = [command.key for command in driven.of(Delete) if command.resource == PODS.id]
            one.bench.catch_up()
            for key in gone:
                if one.tables[PODS].get(key) is not None:
                    one.bench.hide(PODS, key)
        one.clock.advance(60.0)
    return one, answer.met


def rest(one: Scene) -> tuple[list[str], Object, int]:
    return sorted(map(where, one.pods())), one.status(), len(one.revisions())


def where(pod: Object) -> str:
    return pod["spec"].get("nodeName") or target(pod)


@with_each_failure
def test_whatever_a_write_meets_each_node_has_its_pod(scene: Build, outcome: Outcome) -> None:
    whole = rest(settle(scene, None, 0)[0])
    assert whole[0] == ["n0", "n1", "n2", "n3"]
    tried = 0
    while True:
        one, met = settle(scene, outcome, tried)
        assert rest(one) == whole, f"write {tried}"
        if not met:
            break
        tried += 1
    assert tried >= 8
