"""One write of a DaemonSet fails or has an unknown outcome: the final state is the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Delete
from kcm.protocols.messages.outcomes import Outcome
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS
from tests.actors.controllers.workloads.daemonset.scene import Scene, daemon_set, nodes, owned, target
from tests.support.refusals import OneWriteFails, with_each_failure

Build = Callable[..., Scene]


def settle(scene: Build, outcome: Outcome | None, number: int) -> tuple[Scene, bool]:
    """Sync until nothing is left to do, while one write has this outcome. Return whether that write occurred.

    One pod is adopted, one has an old template, one is surplus, and two nodes have no pod.
    """
    pods = [owned("orphan", "n0", ownerReferences=[]), owned("old", "n1"), owned("old-too", "n1")]
    env = scene(daemon_set(unavailable=5), nodes=nodes(4), pods=pods)
    answer = OneWriteFails(outcome, number, env.bench.accept)
    for _ in range(6):
        with suppress(CommandError):
            driven = env.sync(answer)
            gone = [command.key for command in driven.of(Delete) if command.resource == PODS.id]
            env.bench.catch_up()
            for key in gone:
                if env.tables[PODS].get(key) is not None:
                    env.bench.hide(PODS, key)
        env.clock.advance(60.0)
    return env, answer.met


def rest(env: Scene) -> tuple[list[str], Object, int]:
    return sorted(map(where, env.pods())), env.status(), len(env.revisions())


def where(pod: Object) -> str:
    return pod["spec"].get("nodeName") or target(pod)


@with_each_failure
def test_each_node_has_its_pod_despite_a_failed_write(scene: Build, outcome: Outcome) -> None:
    whole = rest(settle(scene, None, 0)[0])
    assert whole[0] == ["n0", "n1", "n2", "n3"]
    tried = 0
    while True:
        env, met = settle(scene, outcome, tried)
        assert rest(env) == whole, f"write {tried}"
        if not met:
            break
        tried += 1
    assert tried >= 8
