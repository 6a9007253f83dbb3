"""Detection of event storms."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from kcm.actors.reconciliation import Reconciliation, RequeueAfter, Watch, itself, record
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.invariants.common.events import MOST_EQUAL, NoEventStorm
from kcm.actors.simulation.invariants.observer import Admitted, Committed, ProcessStarted, Recorded
from kcm.actors.simulation.trials.actions import create
from kcm.protocols.messages.events import Record
from kcm.protocols.objects import encode_object
from kcm.protocols.resources import CONFIGMAPS
from kcm.runtime.apiserver.storage.store import MODIFIED, StoreChange

EVENT = Record("v1", "Pod", "default", "web-0", "u", "8", "Warning", "Failed", "no", component="c")


def recorded(
    log: FilteringBoundLogger, *events: Record | Admitted | ProcessStarted | Committed, apart: float = 0.1
) -> list[str]:
    """Return the violations after these events are recorded, `apart` seconds after each other."""
    cluster = SimulatedCluster(log=log)
    invariant, texts = NoEventStorm(cluster), list[str]()
    for event in events:
        observation = Recorded("manager", "controller:c", event) if isinstance(event, Record) else event
        invariant.observe(observation, texts.append)
        cluster.run_for(apart)
    return texts


def test_more_equal_events_than_the_recorder_lets_through_are_a_storm(log: FilteringBoundLogger) -> None:
    assert recorded(log, *[EVENT] * MOST_EQUAL) == []
    assert recorded(log, *[EVENT] * (MOST_EQUAL + 1)) == [
        "c records 26 equal events about Pod default/web-0 within 60 s without a cause: Warning Failed: no"
    ]


def test_restarted_actor_counts_as_another_one(log: FilteringBoundLogger) -> None:
    """False alarm, seed 1 of cron-jobs-for-long: writes were refused for a minute, and the manager was restarted."""
    events, system = [EVENT] * MOST_EQUAL, SimulatedCluster(log=log).manager(controllers=())
    assert (
        recorded(log, Admitted("manager", "controller:c", 1, ()), *events, ProcessStarted("manager", system), EVENT)
        == []
    )
    for name, incarnation, storms in (("controller:c", 2, 0), ("controller:c", 1, 1), ("controller:d", 2, 1)):
        restarted = Admitted("manager", name, incarnation, ())
        assert len(recorded(log, Admitted("manager", "controller:c", 1, ()), *events, restarted, EVENT)) == storms


def changed(revision: int, storage: str, key: str, *, generation: int = 0) -> Committed:
    raw, previous = (
        encode_object({"metadata": {"name": "n", "generation": number, "resourceVersion": str(revision)}})
        for number in (generation, 0)
    )
    return Committed([StoreChange(MODIFIED, storage, key, revision, raw, previous)])


@pytest.mark.parametrize(
    ("storage", "key", "generation", "is_reason"),
    [
        ("pods", "default/other", 0, True),
        ("pods", "elsewhere/other", 0, False),
        ("pods", "default/web-0", 0, False),  # the controller's own write of the status
        ("pods", "default/web-0", 1, True),
        ("nodes", "n1", 0, False),  # its status, with heartbeats
        ("nodes", "n1", 1, True),
        ("events", "default/web-0.1", 0, False),
        ("leases.coordination.k8s.io", "default/other", 0, False),
    ],
)
def test_change_of_another_object_justifies_a_repeated_event(
    log: FilteringBoundLogger, storage: str, key: str, generation: int, is_reason: bool
) -> None:
    """False alarms, seeds 62026112401048 and 62026112401107 of swarm: equal events at each change of a pod."""
    pairs = [(changed(number, storage, key, generation=generation * number), EVENT) for number in range(1, 30)]
    assert bool(recorded(log, *(each for pair in pairs for each in pair))) is not is_reason


def test_write_of_the_status_justifies_one_more_event_after_each_change(log: FilteringBoundLogger) -> None:
    """False alarms, seeds 5226 and 52008 of swarm: events about a budget after each write of its status."""

    pods = [changed(number, "pods", "default/other") for number in range(1, 60, 2)]
    statuses = [changed(number, "configmaps", "default/web-0") for number in range(2, 61, 2)]
    event = replace(EVENT, kind="ConfigMap")
    assert (
        recorded(log, *(each for pair in zip(pods, statuses, strict=True) for of in pair for each in (of, event))) == []
    )
    assert recorded(log, pods[0], event, *(each for status in statuses for each in (status, event))) != []


def test_version_of_the_object_makes_no_other_event(log: FilteringBoundLogger) -> None:
    events = [replace(EVENT, resource_version=str(version)) for version in range(MOST_EQUAL + 1)]
    assert len(recorded(log, *events)) == 1


@pytest.mark.parametrize("field", ["component", "kind", "namespace", "name", "uid", "type", "reason", "message"])
def test_different_events_are_not_a_storm(log: FilteringBoundLogger, field: str) -> None:
    events = [replace(EVENT, **{field: str(number % 2)}) for number in range(MOST_EQUAL + 1)]
    assert recorded(log, *events) == []


def test_equal_events_of_every_resync_are_not_a_storm(log: FilteringBoundLogger) -> None:
    assert recorded(log, *[EVENT] * (MOST_EQUAL + 1), apart=15.0) == []


class Complaining:
    """Reconciler that records the same event at every sync."""

    def __init__(self, context: ControllerContext, every: float) -> None:
        self._maps, self._every = context.tables[CONFIGMAPS], every

    def reconcile(self, key: str) -> Reconciliation:
        found = self._maps.get(key)
        if found is not None:
            yield record(CONFIGMAPS, found, "Warning", "Bad", "it is bad")
        return RequeueAfter(self._every)


@pytest.mark.parametrize(("every", "violated"), [(1.0, ["no event storm"]), (5.0, [])])
def test_run_of_a_controller_that_records_an_event_at_every_sync(every: float, violated: list[str]) -> None:
    spec = ControllerSpec(
        name="complaining",
        queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself),)),),
        build=lambda context: Complaining(context, every),
    )
    setting = Setting(
        controllers=(spec,), actions=lambda _: (create(1.0, CONFIGMAPS, {"metadata": {"name": "a"}}),), settled=20.0
    )
    assert [violation.invariant for violation in check(1, (), setting=setting).violations] == violated
