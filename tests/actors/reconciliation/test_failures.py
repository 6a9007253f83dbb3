"""Exceptions that determine the retry of a key, in a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from kcm.actors.reconciliation import Reconciliation, Retry, TerminalError, Watch, create, itself, must
from kcm.actors.reconciliation.specs import ControllerSpec, Pass, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Key, split_key
from kcm.protocols.resources import Resource
from kcm.runtime.metrics.families import GIVEN_UP_KEYS
from kcm.runtime.scheduling.backoff import Backoff

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
SECRETS = Resource(version="v1", plural="secrets", kind="Secret")


TO_TWENTY = Backoff(first=4.0, factor=3.0, most=20.0)


def gaps(times: list[float]) -> list[float]:
    return [round(later - earlier, 1) for earlier, later in pairwise(times)]


class Plans:
    """Reconciler that succeeds or fails according to the ConfigMap's name, and records the times of its syncs."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.seen: dict[Key, list[float]] = {}
        self.passes: list[float] = []

    def reconcile(self, key: Key) -> Reconciliation:
        namespace, name = split_key(key)
        self.seen.setdefault(name, []).append(round(self._now(), 1))
        match name:
            case "in-vain":
                raise TerminalError("there is no such plan")
            case "not-yet" if len(self.seen[name]) < 4:
                raise Retry("the directory moves", after=7.0)
            case "invalid":
                yield from must(create(SECRETS, {"metadata": {"name": "No Name"}}, namespace=namespace))
            case "fails":
                raise ValueError("malformed")
        return None

    def sweep(self) -> Reconciliation:
        self.passes.append(round(self._now(), 1))
        yield from ()
        raise Retry(after=30.0)


def spec(plans: Plans) -> ControllerSpec:
    return ControllerSpec(
        name="plans",
        queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself),), concurrency=1, backoff=TO_TWENTY),),
        passes=(Pass("sweep", every=1000.0, run=Plans.sweep),),
        build=lambda _context: plans,
    )


def configmap(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def test_retry_determines_the_delay_of_the_key(cluster: SimulatedCluster) -> None:
    plans = Plans(cluster.clock.monotonic)
    system = cluster.manager(controllers=[spec(plans)])
    cluster.run_for(1.0)
    for name in ("in-vain", "not-yet", "invalid", "fails"):
        cluster.create(CONFIGMAPS, configmap(name))
    cluster.run_for(60.0)

    assert len(plans.seen["in-vain"]) == len(plans.seen["invalid"]) == 1
    assert gaps(plans.seen["not-yet"]) == [7.0, 7.0, 7.0]
    assert gaps(plans.seen["fails"])[:3] == [4.0, 12.0, 20.0]
    assert gaps(plans.passes) == [30.0, 30.0]
    assert system.metrics.counter(GIVEN_UP_KEYS, "plans").value == 2
    cluster.merge(CONFIGMAPS, "default/in-vain", {"data": {"plan": "other"}})
    cluster.run_for(1.0)
    assert len(plans.seen["in-vain"]) == 2, "its next event looks at it again"


def test_a_user_does_not_wait_for_the_first_list(cluster: SimulatedCluster) -> None:
    for number in range(30):
        cluster.create(CONFIGMAPS, configmap(f"old-{number:02}"))

    seen: list[str] = []

    class Slow:
        def reconcile(self, key: Key) -> Reconciliation:
            seen.append(split_key(key)[1])
            yield create(SECRETS, {"metadata": {"name": split_key(key)[1]}}, namespace="default")
            return None

    queue = Queue(watches=(Watch(CONFIGMAPS, to=itself),), concurrency=1, events_first=True)
    copier = ControllerSpec(name="copier", queues=(queue,), build=lambda _context: Slow(), qps=2.0, burst=1)
    cluster.manager(controllers=[copier])
    cluster.run_until(lambda: len(seen) == 5, within=30.0)
    cluster.create(CONFIGMAPS, configmap("urgent"))
    cluster.run_for(1.0)
    assert 5 <= seen.index("urgent") <= 7, "two writes a second: the list takes a quarter of a minute"
    cluster.run_for(20.0)
    assert len(seen) == 31


def test_controllers_with_one_client_share_its_rate_limit(cluster: SimulatedCluster) -> None:
    def of(name: str, qps: float) -> ControllerSpec:
        return ControllerSpec(name=name, client="one", qps=qps, build=lambda _context: None)

    with pytest.raises(ValueError, match="b and another controller give different rate limits to one"):
        cluster.manager(controllers=[of("a", 5.0), of("b", 6.0)])
