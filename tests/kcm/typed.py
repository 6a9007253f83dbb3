"""Types of the public names, checked by mypy and never run."""

from collections.abc import Iterable
from typing import Any, assert_type

import kcm
import kcm.testing
from kcm import ControllerSystem, Key, Outcome, Reconciliation, make_key, outcomes, tables
from kcm import NoSuchName as NoSuchName  # type: ignore[attr-defined]  # an unknown name is an error, not Any
from kcm.commands import patch
from kcm.runtime.system.actor import Actor, ActorSpec, Context
from kcm.specs import Change, Pass, Queue, Watch, itself
from kcm.steps import ensure, finalize, must
from kcm.testing import SimulatedCluster, parse_faults

NODES = kcm.Resource(version="v1", plural="nodes", kind="Node", namespaced=False)

assert_type(make_key("default", "web"), Key)
assert_type(kcm.testing.SimulatedCluster(seed=7, faults=parse_faults("")), SimulatedCluster)


def drain(system: ControllerSystem) -> bool:
    return assert_type(system.stop(5.0), bool)


def outcome(of: Outcome) -> str:
    match of:
        case kcm.Done():
            return "done"
        case kcm.NotFound() | kcm.Conflict():
            return "gone"
        case _:
            return "failed"


def campaign() -> None:
    assert_type(kcm.testing.run_campaign(kcm.testing.Setting(), range(3), jobs=2).failed, list[kcm.testing.Tried])
    assert_type(kcm.testing.user_creates(1.0, NODES, kcm.testing.node()), kcm.testing.Action)


def served(system: ControllerSystem) -> None:
    with kcm.LocalCluster.start("cluster", nodes=1) as cluster, kcm.serve(system, "127.0.0.1:0") as pages:
        assert_type(cluster.url, str)
        assert_type(pages.url, str)


# External calls return the result of the called function.


def size(of: str) -> int:
    return len(of)


async def size_later(of: str) -> int:
    return len(of)


def asking(key: Key) -> kcm.Reconciliation:
    assert_type((yield from kcm.call(size, key, timeout=5)), int)
    assert_type((yield from kcm.call(size_later, key)), int)
    kcm.call("no function")  # type: ignore[call-overload]
    # `but` adds the outcomes that are returned instead of raised.
    assert_type((yield from kcm.call(size, key, but=(KeyError,))), int | kcm.Raised)
    assert_type((yield from kcm.call(size, key, but=(KeyError, OSError), timeout=5, key=key)), int | kcm.Raised)
    assert_type((yield from kcm.call(size, key, but=(kcm.Raised,))), int | kcm.Raised)
    assert_type((yield from kcm.call(size_later, key, but=(kcm.Unknown,))), int | kcm.Unknown)
    assert_type((yield from kcm.call(size, key, but=(KeyError, kcm.Unknown))), int | kcm.Raised | kcm.Unknown)
    return None


def asking_whatever_is_given(key: Key, but: tuple[type[Exception] | type[Outcome], ...]) -> kcm.Reconciliation:
    answer = yield from kcm.call(size, key, but=but)
    assert_type(answer, int | kcm.Raised | kcm.Unknown | kcm.Refused)
    return None


async def awaiting(key: Key) -> None:
    assert_type(await kcm.call(size, key), int)
    assert_type(await kcm.call(size_later, key), int)
    assert_type(await kcm.call(size, key, but=(KeyError,)), int | kcm.Raised)
    assert_type(await kcm.call(size_later, key, but=(KeyError, kcm.Refused)), int | kcm.Raised | kcm.Refused)


# Results of steps, for maps and for models.


class Website:
    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def from_dict(cls, obj: kcm.Object) -> "Website":
        return cls(kcm.name_of(obj))

    def to_dict(self) -> kcm.Object:
        return {"metadata": {"name": self.name}}


CONFIGMAPS = kcm.Resource(version="v1", plural="configmaps", kind="ConfigMap")
WEBSITES = kcm.Resource(group="example.com", version="v1", plural="websites", kind="Website", model=Website)
assert_type(CONFIGMAPS, kcm.Resource[kcm.Object])
assert_type(WEBSITES, kcm.Resource[Website])


def stepping(tables: kcm.Tables, key: Key) -> kcm.Reconciliation:
    assert_type(tables[WEBSITES], kcm.Lister[Website])
    assert_type(tables[CONFIGMAPS].get(key), kcm.Object | None)
    assert_type((yield from kcm.ensure(tables[CONFIGMAPS], {})), kcm.Object)
    assert_type((yield from kcm.ensure(tables[WEBSITES], {})), Website)
    assert_type((yield from kcm.patch_status(tables[WEBSITES], Website("blog"), {})), Website | None)
    assert_type((yield from kcm.ensure_finalizer(tables[WEBSITES], Website("blog"), "a.com/b")), Website)
    assert_type((yield from kcm.remove_finalizer(tables[WEBSITES], Website("blog"), "a.com/b")), None)
    assert_type((yield from finalize(tables[WEBSITES], key, "a.com/b", print)), Website | None)
    assert_type((yield from kcm.must_object(kcm.patch(CONFIGMAPS, key, {}))), kcm.Object)
    assert_type((yield from kcm.must(kcm.create(CONFIGMAPS, {}), but=(kcm.AlreadyExists,))), Outcome)
    assert_type((yield from kcm.perform(kcm.update(WEBSITES, Website("blog")))), Outcome)
    assert_type((yield from kcm.together([kcm.get_live(CONFIGMAPS, key)])), list[Outcome])
    assert_type((yield from kcm.must_all([kcm.list_live(CONFIGMAPS)])), list[Outcome])
    assert_type((yield from kcm.slow_start([kcm.delete(CONFIGMAPS, key)])), list[Outcome])
    assert_type((yield from kcm.in_batches([kcm.apply(CONFIGMAPS, {})], 3)), list[Outcome])
    assert_type(kcm.owned(tables[WEBSITES], by={}), list[Website])
    assert_type(kcm.own({}, by=Website("blog"), of=WEBSITES), kcm.Object)
    return kcm.RequeueAfter(5.0)


# Names by group.


def grouped(lister: tables.Lister[dict[str, Any]], key: Key) -> Reconciliation:
    found = yield from ensure(lister, {})
    assert_type((yield from must(patch(CONFIGMAPS, key, {}), but=(outcomes.NotFound,))), Outcome)
    assert_type(kcm.objects.name_of(found), str)
    try:
        yield from kcm.steps.must(kcm.commands.delete(CONFIGMAPS, key))
    except kcm.CommandFailed as err:
        assert_type(err, outcomes.CommandError)
    return None


# Keys of a queue, and what an actor is built with: mistakes are errors of mypy.

Cell = tuple[str, int]


class Cells:
    def reconcile_cell(self, cell: Cell) -> Reconciliation:
        yield from ()
        return None

    def sweep(self) -> Reconciliation:
        yield from ()
        return None


class Counter(Actor):
    def __init__(self, context: Context, *, start: int) -> None:
        super().__init__(context)


def cells(_change: Change, _tables: kcm.Tables) -> Iterable[Cell]:
    return ()


SPEC = kcm.ControllerSpec(
    name="cells-controller",
    build=lambda _context: Cells(),
    queues=(
        Queue("cells", reconcile=Cells.reconcile_cell, watches=(Watch(CONFIGMAPS, to=cells),)),
        Queue("wrong", reconcile=Cells.reconcile_cell, watches=(Watch(CONFIGMAPS, to=itself),)),  # type: ignore[arg-type]
    ),
    passes=(
        Pass("sweep", every=lambda _options: 60.0, run=Cells.sweep),
        Pass("wrong", every=lambda _options: 60.0, run=Cells.reconcile_cell),  # type: ignore[arg-type]
    ),
)
RIGHT = ActorSpec(name="counter", build=lambda context: Counter(context, start=1))
WRONG = ActorSpec(name="counter", build=lambda context: Counter(context, begin=1))  # type: ignore[call-arg]
