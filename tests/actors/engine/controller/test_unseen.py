"""Own writes that another client overwrites before the watch shows them: watches of the own state are notified.

The informer goes from the state before the own write to the state after the other write at once, as after a list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from kcm.actors.engine.controller.keys import Keys
from kcm.actors.reconciliation import Change, Interest, Watch
from kcm.protocols.messages.watches import ORPHANS, EventType
from kcm.protocols.objects import Key, Object, encode_object
from kcm.protocols.resources import PODS
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.tables.interests import InterestIndex
from kcm.runtime.tables.selection import WHOLE
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import Tables
from kcm.runtime.tables.view import Part, View, mark_of, marks

ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED
OURS, OTHERS = {"app": "web"}, {"app": "db"}


@dataclass(frozen=True)
class Facts:
    ready: bool


def pod(version: int, *, labels: Any = None, ready: bool = False, owner: str = "", **meta: Any) -> Object:
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": f"uid-{owner}", "controller": True}]
    meta |= {"name": "a", "namespace": "default", "uid": meta.get("uid", "u"), "resourceVersion": str(version)}
    return {
        "metadata": meta | {"labels": labels or {}} | ({"ownerReferences": owners} if owner else {}),
        "status": {"ready": ready},
    }


def by_app(obj: Object) -> tuple[str, ...]:
    return tuple(value for name, value in obj["metadata"]["labels"].items() if name == "app")


class Rig:
    """Watch of pods, with its table, its overlay, and the keys that it enqueues."""

    def __init__(self, watch: Watch[Any], *, seen: bool = False) -> None:
        """Create the watch. seen: limit the controller's view to the objects that the watch selects."""
        selection = watch.selection
        mark = mark_of(selection)
        self.table = Table(
            PODS,
            indexes={"app": by_app} | ({mark: marks(selection, WHOLE)} if watch.is_restricted else {}),
            derive=lambda obj: Facts(obj["status"]["ready"]),
        )
        self.writer = self.table.claim()
        view = View(PODS, selection, [Part(self.table, "", mark)]) if seen else self.table
        self.tables = Tables({PODS.id: view})
        self.clock = VirtualClock()
        self.queue: WorkQueue[Key] = WorkQueue(now=0.0)
        self.keys = Keys(
            routes=[(watch, self.queue)],
            tables=self.tables,
            clock=self.clock,
            log=quiet_log(),
            raised=lambda *_: None,
        )

    def entry(self, obj: Object) -> Any:
        return self.table.make_entry(obj, encode_object(obj))

    def list(self, *objects: Object, version: int) -> None:
        self.writer.replace([self.entry(obj) for obj in objects], version)

    def write(self, obj: Object) -> None:
        overlay = self.tables.overlay_to_write(PODS.id)
        assert overlay is not None
        overlay.wrote(encode_object(obj))

    def enqueued(self) -> bool:
        """Report whether the watch enqueues a key because of the controller's own writes alone."""
        for overlay in self.tables.overlays().values():
            overlay.prune()
        self.keys.add_unseen()
        return self.queue.take(0.0) is not None


def key(change: Change, _tables: Tables) -> tuple[Key, ...]:
    return (change.key,)


WATCHES = {
    "index": Watch(PODS, to=key, interest=Interest(indexed=(("app", "web"),))),
    "finalizer": Watch(PODS, to=key, interest=Interest(finalizers=("ours",))),
    "owner": Watch(PODS, to=key, interest=Interest(owner_kinds=("Job",))),
    "orphans": Watch(PODS, to=key, interest=Interest(owner_kinds=(ORPHANS,), indexed=(("app", "web"),))),
    "state": Watch(PODS, to=key, interest=Interest(having=(("ready", (True,)),))),
    "change": Watch(PODS, to=key, interest=Interest(changed=("ready",))),
    "owners": Watch(PODS, to=key, interest=Interest(owners=True)),
    "selection": Watch(PODS, to=key, labels="app=web"),
}


@pytest.mark.parametrize(
    "watch, before, ours, others",
    [
        ("index", {}, {"labels": OURS}, {"labels": OTHERS}),
        ("finalizer", {}, {"finalizers": ["ours"]}, {}),
        ("owner", {}, {"owner": "Job"}, {"owner": "Deployment"}),
        ("orphans", {"labels": OURS, "owner": "Job"}, {"labels": OURS}, {"owner": "Job"}),
        ("state", {}, {"ready": True}, {}),
        ("change", {}, {"ready": True}, {}),
        ("owners", {}, {"owner": "Job"}, {}),
        ("selection", {}, {"labels": OURS}, {"labels": OTHERS}),
    ],
)
@pytest.mark.parametrize("made", [False, True], ids=["it was there", "we made it"])
def test_watch_met_only_by_own_write_sees_its_reversal(
    watch: str, before: Any, ours: Any, others: Any, made: bool
) -> None:
    rig = Rig(WATCHES[watch])
    rig.list(*([] if made else [pod(1, **before)]), version=1)
    rig.write(pod(2, **ours))
    assert not rig.enqueued(), "nobody has touched it yet"
    rig.list(pod(3, **others), version=3)
    assert rig.enqueued()
    assert not rig.enqueued(), "once"


@pytest.mark.parametrize("watch", WATCHES)
def test_own_write_shown_by_the_watch_enqueues_nothing(watch: str) -> None:
    rig = Rig(WATCHES[watch])
    rig.list(version=1)
    rig.write(pod(2, labels=OURS, owner="Job", ready=True, finalizers=["ours"]))
    rig.list(pod(2, labels=OURS, owner="Job", ready=True, finalizers=["ours"]), version=3)
    assert not rig.enqueued()


@pytest.mark.parametrize(
    "watch", [Watch(PODS, to=key), WATCHES["index"], WATCHES["finalizer"], WATCHES["owner"], WATCHES["state"]]
)
def test_change_reported_by_the_informer_is_not_enqueued_twice(watch: Watch[Any]) -> None:
    # The new state meets the interest without the own write, so the event of the informer enqueues the key.
    rig = Rig(watch)
    rig.list(version=1)
    ours = {"labels": OURS, "owner": "Job", "ready": True, "finalizers": ["ours"]}
    rig.write(pod(2, **ours))
    after = rig.entry(pod(3, annotations={"seen": "by somebody"}, **ours))
    assert InterestIndex({"me": [watch.interest]}).concerned(ADDED, after, None) == {"me": 1}
    rig.writer.replace([after], 3)
    assert not rig.enqueued()


@pytest.mark.parametrize("after", [[], [pod(3, uid="another")]], ids=["gone", "made anew"])
@pytest.mark.parametrize("watch", [WATCHES["index"], Watch(PODS, to=key, interest=Interest(types=(DELETED,)))])
def test_own_creation_deleted_unseen_counts_as_deleted(watch: Watch[Any], after: list[Object]) -> None:
    rig = Rig(watch)
    rig.list(version=1)
    rig.write(pod(2, labels=OURS))
    rig.list(*after, version=3)
    assert rig.enqueued()


def test_change_contains_own_write_as_old_and_later_state_as_new() -> None:
    seen: list[Change] = []

    def look(change: Change, _tables: Tables) -> tuple[Key, ...]:
        seen.append(change)
        return (change.key,)

    rig = Rig(Watch(PODS, to=look, interest=Interest(owner_kinds=("Job",))))
    rig.list(pod(1), version=1)
    rig.write(pod(2, owner="Job"))
    rig.list(pod(3, owner="Deployment"), version=3)
    assert rig.enqueued()
    [change] = seen
    assert change.type == MODIFIED
    assert (change.controller and change.controller.kind) == "Deployment"
    assert (change.previous_controller and change.previous_controller.kind) == "Job"
    assert change.old is not None
    assert (change.old["metadata"]["resourceVersion"], change.new["metadata"]["resourceVersion"]) == ("2", "3")


@pytest.mark.parametrize("seen", [False, True], ids=["one watch of several", "all it sees"])
def test_object_that_left_the_selection_unseen_counts_as_deleted(seen: bool) -> None:
    types: list[str] = []

    def look(change: Change, _tables: Tables) -> tuple[Key, ...]:
        types.append(change.type)
        return (change.key,)

    rig = Rig(Watch(PODS, to=look, labels="app=web"), seen=seen)
    rig.list(pod(1, labels=OTHERS), version=1)
    rig.write(pod(2, labels=OURS))
    rig.list(pod(3, labels=OTHERS), version=3)
    assert rig.enqueued()
    assert types == [DELETED]


def test_object_that_reentered_the_selection_unseen_counts_as_added() -> None:
    rig = Rig(Watch(PODS, to=key, labels="app=web", interest=Interest(changed=("ready",))), seen=True)
    rig.list(pod(1, labels=OURS), version=1)
    rig.write(pod(2, labels=OTHERS))
    assert rig.tables[PODS].get("default/a") is None
    rig.list(pod(3, labels=OURS), version=3)
    assert rig.tables[PODS].get("default/a") is not None
    assert rig.enqueued()
