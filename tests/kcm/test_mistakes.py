"""Wrong arguments of public names raise at once, with the name of the argument."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import kcm
import kcm.testing
from kcm import Queue, Watch, itself

CONFIGMAPS = kcm.Resource(version="v1", plural="configmaps", kind="ConfigMap")
OBJECT = {"metadata": {"name": "web", "namespace": "d", "uid": "u", "resourceVersion": "7"}}
SPEC = kcm.ControllerSpec(name="web", build=lambda _context: None)


class Silent:
    """Transport that sends nothing."""

    def send(self, *_: Any, **__: Any) -> None:
        return None

    def watch(self, *_: Any, **__: Any) -> None:
        return None


def spec(**fields: Any) -> kcm.ControllerSpec:
    return kcm.ControllerSpec(**{"name": "web", "build": lambda _context: None, **fields})


def system(**arguments: Any) -> kcm.ControllerSystem:
    return kcm.ControllerSystem(**{"transport": Silent(), "controllers": (SPEC,), **arguments})


def run(step: Any) -> None:
    bench = kcm.testing.Bench({CONFIGMAPS: [OBJECT]})

    def steps() -> kcm.Reconciliation:
        yield from step
        return None

    kcm.testing.drive_steps(steps(), bench.accept, tables=bench.tables)


def tables() -> Any:
    return kcm.testing.Bench({CONFIGMAPS: [OBJECT]}).tables


def world() -> kcm.testing.SimulatedCluster:
    return kcm.testing.SimulatedCluster()


patch: Any = kcm.patch
delete: Any = kcm.delete
call: Any = kcm.call
A_PATCH = patch(CONFIGMAPS, "d/web", {})

NOT_A_RESOURCE = "a command takes a Resource(version=…, plural=…, kind=…), not 'configmaps'"
MISTAKES: list[tuple[str, Callable[[], Any], str]] = [
    # Seconds.
    ("requeue", lambda: kcm.RequeueAfter(-5), "RequeueAfter takes a number of seconds, 0 or more, not -5"),
    ("requeue text", lambda: kcm.RequeueAfter("5"), "RequeueAfter takes a number of seconds, not '5'"),  # type: ignore[arg-type]
    ("enqueue", lambda: kcm.Enqueue("q", "k", after=-1.0), "Enqueue: after takes a number of seconds, 0 or more"),
    ("retry", lambda: kcm.Retry(after=None), "Retry: after takes a number of seconds, not None"),  # type: ignore[arg-type]
    ("backoff", lambda: kcm.Backoff(first=0, most=9), "first of a Backoff takes a number above 0, not 0"),
    ("run_for", lambda: world().run_for("10"), "run_for takes a number, not '10'"),  # type: ignore[arg-type]
    # The plural of a resource instead of the resource.
    ("patch", lambda: patch("configmaps", "d/web", {}), NOT_A_RESOURCE),
    ("create", lambda: kcm.create("configmaps", OBJECT), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("update", lambda: kcm.update("configmaps", OBJECT), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("apply", lambda: kcm.apply("configmaps", OBJECT), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("delete", lambda: delete("configmaps", "d/web"), NOT_A_RESOURCE),
    ("get_live", lambda: kcm.get_live("configmaps", "d/web"), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("list_live", lambda: kcm.list_live("configmaps"), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("record", lambda: kcm.record("configmaps", OBJECT, "Normal", "A", "b"), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("merge_status", lambda: kcm.merge_status("configmaps", OBJECT, {}), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("own", lambda: kcm.own(OBJECT, by=OBJECT, of="x"), "of=… of own takes the Resource of the owner, not 'x'"),  # type: ignore[arg-type]
    ("tables", lambda: tables()["configmaps"], "tables[…] takes a Resource(version=…, plural=…, kind=…), not 'configm"),
    ("bench", lambda: kcm.testing.Bench({"configmaps": []}), NOT_A_RESOURCE),  # type: ignore[dict-item]
    ("world.get", lambda: world().get("configmaps", "d/web"), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("world.list", lambda: world().list("configmaps"), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("world.create", lambda: world().create("configmaps", OBJECT), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("world.merge", lambda: world().merge("configmaps", "d/web", {}), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("world.delete", lambda: world().delete("configmaps", "d/web"), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("user_merges", lambda: kcm.testing.user_merges(1.0, "configmaps", "d/web", {}), NOT_A_RESOURCE),  # type: ignore[arg-type]
    ("index", lambda: kcm.Index("configmaps", "i", lambda _: ()), "an Index takes a Resource, not 'configmaps'"),  # type: ignore[arg-type]
    # The resource instead of its lister, a key without namespace, a single value instead of several.
    ("ensure", lambda: run(kcm.ensure(CONFIGMAPS, OBJECT)), "ensure takes a lister, as tables[CONFIGMAPS], not"),  # type: ignore[arg-type]
    ("patch_status", lambda: run(kcm.patch_status(CONFIGMAPS, OBJECT, {})), "patch_status takes a lister, as tables"),  # type: ignore[arg-type]
    ("owned", lambda: kcm.owned(CONFIGMAPS, by=OBJECT), "owned takes a lister, as tables[CONFIGMAPS], not"),  # type: ignore[arg-type]
    ("world key", lambda: world().get(CONFIGMAPS, "web"), "'web' is no key of configmaps: it is 'namespace/name'"),
    ("together", lambda: run(kcm.together(A_PATCH)), "together takes a list of commands, not Patch("),
    ("in_batches", lambda: run(kcm.in_batches([A_PATCH], 0)), "size of in_batches takes a number of at least 1, not 0"),
    (
        "slow_start",
        lambda: run(kcm.slow_start([A_PATCH], initial=0)),
        "initial of slow_start takes a number of at least",
    ),
    ("depends_on", lambda: delete(CONFIGMAPS, "d/web", depends_on=CONFIGMAPS), "depends_on of delete takes a tuple"),
    (
        "watches",
        lambda: Queue(watches=Watch(CONFIGMAPS, to=itself)),
        "watches of queue '': expected a tuple, got Watch",
    ),  # type: ignore[arg-type]
    # Arguments of commands.
    ("body", lambda: patch(CONFIGMAPS, "d/web", "x"), "body of patch takes a map or a list of operations, not 'x'"),
    ("patch_type", lambda: patch(CONFIGMAPS, "d/web", {}, patch_type="merge"), "patch_type of patch takes a PatchType"),
    ("policy", lambda: delete(CONFIGMAPS, "d/web", propagation="orphan"), "propagation of delete is one of Background"),
    (
        "grace",
        lambda: delete(CONFIGMAPS, "d/web", grace_seconds="5"),
        "grace_seconds of delete takes an integer, not '5",
    ),
    (
        "selector",
        lambda: kcm.list_live(CONFIGMAPS, label_selector={"a": "b"}),
        "label_selector of list_live takes text",
    ),  # type: ignore[arg-type]
    (
        "but",
        lambda: run(kcm.must(A_PATCH, but=kcm.NotFound)),
        "but of must is a tuple of outcomes, as in but=(NotFound",
    ),  # type: ignore[arg-type]
    ("timeout", lambda: call(len, "a", timeout="5"), "timeout of call takes a number, not '5'"),
    ("conditions", lambda: kcm.find_condition("Ready", "Ready"), "conditions are a list of maps, not 'Ready'"),  # type: ignore[arg-type]
    ("message", lambda: kcm.set_condition([], "A", True, "R", 3, now=1.0), "message of a condition takes text, not 3"),  # type: ignore[arg-type]
    (
        "key_of",
        lambda: kcm.key_of(CONFIGMAPS),
        "an object is a map, as as_object(model) makes of a model, not Resource(",
    ),  # type: ignore[arg-type]
    # Arguments of specs.
    ("kind", lambda: kcm.Resource(version="v1", plural="pods", kind=""), "kind of a Resource is empty"),
    ("queue", lambda: spec(queues=(Watch(CONFIGMAPS, to=itself),)), "queues of web[0] takes a Queue, not Watch("),
    ("reads", lambda: spec(reads=("configmaps",)), "reads of web[0] takes a Resource or a Read, not 'configmaps'"),
    ("aliases", lambda: spec(aliases=(3,)), "aliases of web[0] takes text, not 3"),
    ("calls", lambda: spec(calls="2"), "calls of web takes an integer, not '2'"),
    (
        "interest",
        lambda: Watch(CONFIGMAPS, to=itself, interest="x"),
        "interest of the watch of configmaps takes an Int",
    ),  # type: ignore[arg-type]
    ("select", lambda: kcm.Discovered(select="x", to=len), "select of a Discovered takes a function, not 'x'"),  # type: ignore[arg-type]
    (
        "family",
        lambda: kcm.Family(name="a", kind="count", help=""),
        "kind of the metric a is one of counter, gauge, his",
    ),  # type: ignore[arg-type]
    ("metric", lambda: kcm.Metrics().counter("a_total"), "a metric takes a Family, not 'a_total'"),  # type: ignore[arg-type]
    (
        "flag",
        lambda: kcm.flag(1.5, "Help."),
        "the default of a flag is one of bool, int, str, tuple, or `kind` is given",
    ),
    (
        "lease",
        lambda: kcm.Election(identity="i", namespace="n", name="x", lease_duration="15"),
        "lease_duration of an El",
    ),  # type: ignore[arg-type]
    ("trial", lambda: kcm.testing.Trial(controller=SPEC), "controller of a Trial takes text, not <ControllerSpec web>"),  # type: ignore[arg-type]
    (
        "setting",
        lambda: kcm.testing.Setting(name="x", controllers=(len,)),
        "controllers of x[0] takes a ControllerSpec",
    ),  # type: ignore[arg-type]
    # The system.
    (
        "transport",
        lambda: system(transport="~/.kube/config"),
        "transport takes a Transport, as api_transport() returns",
    ),
    ("controllers", lambda: system(controllers=(SPEC.build,)), "controllers[0] takes a ControllerSpec, not <function"),
    (
        "one controller",
        lambda: system(controllers=SPEC),
        "controllers: expected a tuple of ControllerSpecs, got <Contr",
    ),
    (
        "options",
        lambda: system(options=["--v=2"]),
        "options takes Options, as read_options() returns them, not ['--v=2",
    ),
    (
        "election",
        lambda: system(election="me"),
        "election takes an Election(identity=…, namespace=…, name=…), not 'me'",
    ),
    ("enable", lambda: system().enable("webb"), "no controller is called 'webb'; there are web"),
    ("pause", lambda: system().pause("webb"), "no controller is called 'webb'; there are web"),
    ("flags", lambda: kcm.read_options("--v=2"), "read_options takes a list of flags, as"),
    ("serve", lambda: kcm.serve(system(), ("127.0.0.1", 80)), "address of serve takes text, not ('127.0.0.1', 80)"),  # type: ignore[arg-type]
    (
        "campaign",
        lambda: kcm.testing.run_campaign("workloads", range(2)),
        "run_campaign takes a Setting, not 'workloads'",
    ),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "text"), [case[1:] for case in MISTAKES], ids=[case[0] for case in MISTAKES])
def test_mistake_is_named_where_it_is_made(make: Callable[[], Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        make()
