from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kcm.actors.hollow import behaviour
from kcm.actors.hollow.kubelet.reconciler import TIME_TO_STOP, HollowKubelet, kubelet_watches
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import Driven, bodies, drive, failing
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Delete, Patch
from kcm.protocols.messages.outcomes import Conflict, NotFound, Outcome, Unknown
from kcm.protocols.objects import Object, encode_object, name_of
from kcm.protocols.resources import NODES, PODS, Resource
from tests.actors.hollow.objects import FLEET, bench, bound, deleted, hollow_node, nodes, unassigned

KEY = "default/web"
SILENT = {behaviour.SILENT: "true"}
NAMESAKE = {"name": "web", "namespace": "default", "uid": "another", "resourceVersion": "9000"}


class World:
    """Pods on hollow nodes, and the kubelet that runs them."""

    def __init__(self, *pods: Object, on: Sequence[Object] | None = None) -> None:
        self.bench = bench(pods=pods, nodes=nodes() if on is None else on)
        self.kubelet = HollowKubelet(tables=self.bench.tables, clock=self.bench.clock, fleet=FLEET)

    def drive(self, key: str = KEY, answer: Callable[..., Any] | None = None, **options: Any) -> Driven | None:
        return drive(self.kubelet, key, answer or self.bench.accept, tables=self.bench.tables, **options)

    def pod(self, key: str = KEY) -> Object | None:
        return self.bench.tables[PODS].get(key)

    def ask_to_delete(self, key: str = KEY, **options: Any) -> None:
        self.bench.show(PODS, deleted(self.pod(key), **options))


def addresses(world: World, *names: str) -> list[str]:
    return [world.pod(f"default/{name}")["status"]["podIP"] for name in names]


def test_bound_pod_is_running_and_ready_after_one_write() -> None:
    world = World(bound())
    driven = world.drive()
    (command,) = driven.commands
    assert isinstance(command, Patch)
    assert (command.key, command.subresource) == (KEY, "status")
    facts = world.bench.tables[PODS].entry(KEY).facts
    assert (facts.phase, facts.ready) == ("Running", True)
    assert driven.result is None


def test_a_running_pod_is_left_alone() -> None:
    world = World(bound())
    world.drive()
    assert world.drive().commands == []


LEFT_ALONE = {
    "not bound": (unassigned(), nodes()),
    "bound to a node that is not hollow": (bound(to="n1"), nodes()),
    "bound to a hollow node that does not exist": (bound(to="hollow-node-2"), [hollow_node("hollow-node-0")]),
    "on a silent node": (bound(), [hollow_node(annotations=SILENT)]),
    "over": ({**bound(), "status": {"phase": "Succeeded"}}, nodes()),
    "deleted, on a silent node": (deleted(bound()), [hollow_node(annotations=SILENT)]),
    "deleted, on a node that does not exist": (deleted(bound(to="hollow-node-2")), [hollow_node("hollow-node-0")]),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_pods_of_other_nodes_and_of_silent_nodes_are_ignored(case: str) -> None:
    pod, there = LEFT_ALONE[case]
    driven = World(pod, on=there).drive()
    assert (driven.commands, driven.result) == ([], None)


def test_pods_of_a_flapping_node_wait_until_it_resumes() -> None:
    world = World(bound(), on=[hollow_node(annotations={behaviour.FLAP: "60"})])
    clock = world.bench.clock
    clock.advance(60 - clock.now() % 60 + (0 if clock.now() // 60 % 2 == 0 else 60))
    driven = world.drive()
    assert (driven.commands, driven.result.seconds) == ([], pytest.approx(60.0))
    clock.advance(driven.result.seconds)
    assert world.drive().of(Patch)


def test_deleted_pod_needs_no_commands() -> None:
    assert World().drive().commands == []


def test_readiness_may_take_its_time() -> None:
    world = World(bound(annotations={behaviour.READY_AFTER: "5"}))
    assert world.drive().result.seconds == 5
    assert world.bench.tables[PODS].entry(KEY).facts.ready is False
    world.bench.clock.advance(5)
    assert world.drive().result is None
    assert world.bench.tables[PODS].entry(KEY).facts.ready is True


def test_a_pod_that_runs_to_its_end_succeeds() -> None:
    world = World(bound(restartPolicy="Never", annotations={behaviour.RUN_SECONDS: "30"}))
    assert world.drive().result.seconds == 30
    world.bench.clock.advance(30)
    world.drive()
    assert world.pod()["status"]["phase"] == "Succeeded"


def test_a_pod_that_shall_be_rejected_is_never_started() -> None:
    world = World(bound(annotations={behaviour.REJECT: "true"}))
    driven = world.drive()
    status = world.pod()["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert "podIP" not in status
    assert driven.events == [("Warning", "OutOfcpu", status["message"])]
    assert world.drive().commands == []


@pytest.mark.parametrize(
    ("port", "phase"), [({"hostPort": 80}, "Failed"), ({"hostPort": 81}, "Running"), ({}, "Running")]
)
def test_host_port_is_used_by_one_pod_only(port: dict[str, int], phase: str) -> None:
    def asking(name: str, ports: dict[str, int]) -> Object:
        pod = bound(name)
        (container,) = pod["spec"]["containers"]
        return {
            **pod,
            "spec": {**pod["spec"], "containers": [{**container, "ports": [{"containerPort": 80, **ports}]}]},
        }

    world = World(asking("first", {"hostPort": 80}), asking("web", port))
    world.drive("default/first")
    driven = world.drive()
    status = world.pod()["status"]
    assert status["phase"] == phase
    if phase == "Failed":
        why = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
        assert (status["reason"], status["message"]) == ("NodePorts", f"Pod was rejected: {why}")
        assert driven.events == [("Warning", "NodePorts", status["message"])]
    assert world.drive("default/first").commands == []


def test_a_running_pod_is_not_rejected_any_more() -> None:
    world = World(bound())
    world.drive()
    world.bench.show(
        PODS, {**world.pod(), "metadata": {**world.pod()["metadata"], "annotations": {behaviour.REJECT: "true"}}}
    )
    assert world.drive().commands == []


UNPULLABLE = [{"name": "web", "image": "web:404"}]


def test_failed_image_pull_is_recorded_for_its_container() -> None:
    world = World(bound(containers=UNPULLABLE))
    driven = world.drive()
    assert driven.result.seconds == 5
    assert [event[1] for event in driven.events] == ["Pulling", "Failed", "Failed"]
    assert {record.field_path for record in driven.records} == {"spec.containers{web}"}
    assert world.pod()["status"]["phase"] == "Pending"
    for seconds, reason in (
        (5, "ImagePullBackOff"),
        (5, "ErrImagePull"),
        (5, "ImagePullBackOff"),
        (15, "ErrImagePull"),
    ):
        world.bench.clock.advance(seconds)
        world.drive()
        assert world.pod()["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
    assert world.drive().commands == []


def test_pull_backoff_is_reset_for_a_pod_of_the_same_name() -> None:
    world = World(bound(containers=UNPULLABLE))
    world.drive()
    world.bench.clock.advance(7)
    world.bench.show(PODS, {**bound(containers=UNPULLABLE), "metadata": NAMESAKE})
    driven = world.drive()
    assert ([event[1] for event in driven.events], driven.result.seconds) == (["Pulling", "Failed", "Failed"], 5)


def test_images_of_a_node_are_evaluated_when_a_container_starts() -> None:
    world = World(bound(), on=[hollow_node(annotations={behaviour.UNPULLABLE: "nginx"})])
    world.drive()
    assert world.pod()["status"]["phase"] == "Pending"
    world.bench.show(NODES, hollow_node())
    world.bench.clock.advance(10)
    world.drive()
    assert world.pod()["status"]["phase"] == "Running"


def test_a_kubelet_that_restarts_forgets_its_pulls_and_no_more() -> None:
    world = World(bound(containers=UNPULLABLE))
    world.drive()
    world.kubelet = HollowKubelet(tables=world.bench.tables, clock=world.bench.clock, fleet=FLEET)
    assert [event[1] for event in world.drive().events] == ["Pulling", "Failed", "Failed"]


def test_a_pod_in_a_crash_loop_is_deleted_without_a_wait() -> None:
    slow = {behaviour.TERMINATE_AFTER: "20"}
    world = World(bound(annotations=slow, containers=[{"name": "web", "image": "web", "command": ["false"]}]))
    ((type, reason, message),) = world.drive().events
    assert (type, reason) == ("Warning", "BackOff")
    assert message.startswith("Back-off restarting failed container web in pod web_default(")
    world.ask_to_delete()
    world.drive()
    assert world.pod() is None


# Addresses.


def test_pods_of_a_node_have_addresses_of_their_own() -> None:
    world = World(*(bound(name) for name in "abc"), bound("d", to="hollow-node-1"))
    for name in "abcd":
        world.drive(f"default/{name}")
    assert addresses(world, *"abcd") == ["240.0.0.2", "240.0.0.3", "240.0.0.4", "240.0.1.2"]


def test_a_node_with_a_pod_cidr_uses_that() -> None:
    there = [hollow_node(spec={"podCIDR": "10.244.3.0/24", "podCIDRs": ["10.244.3.0/24", "fd00:3::/64"]})]
    world = World(bound(), on=there)
    world.drive()
    assert world.pod()["status"]["podIPs"] == [{"ip": "10.244.3.2"}, {"ip": "fd00:3::2"}]


def test_a_pod_on_the_hosts_network_has_the_hosts_address() -> None:
    world = World(bound(hostNetwork=True))
    world.drive()
    assert addresses(world, "web") == ["198.18.0.1"]


def test_a_new_kubelet_does_not_hand_out_what_pods_have() -> None:
    world = World(*(bound(name) for name in "abc"))
    world.drive("default/a")
    world.kubelet = HollowKubelet(tables=world.bench.tables, clock=world.bench.clock, fleet=FLEET)
    for name in "bca":
        world.drive(f"default/{name}")
    assert addresses(world, *"abc") == ["240.0.0.2", "240.0.0.3", "240.0.0.4"]


def test_a_write_that_failed_is_repeated_with_the_same_address() -> None:
    world = World(bound(), bound("other"))
    world.drive(answer=lambda _: Unknown("timeout"), raises=CommandError)
    world.drive("default/other")
    world.drive()
    assert addresses(world, "web", "other") == ["240.0.0.2", "240.0.0.3"]


def test_address_of_a_terminal_or_deleted_pod_is_released() -> None:
    small = [hollow_node(spec={"podCIDR": "10.0.0.0/29"})]  # room for five pods
    world = World(*(bound(name) for name in "abcdefg"), on=small)
    for name in "abcde":
        world.drive(f"default/{name}")
    with pytest.raises(ValueError, match="no free address for pod default/f"):
        world.drive("default/f")
    world.bench.show(
        PODS, {**world.pod("default/a"), "status": {"phase": "Succeeded", "startTime": "2027-01-01T00:00:00Z"}}
    )
    world.drive("default/a")
    world.bench.hide(PODS, "default/b")
    world.drive("default/b")
    world.drive("default/f")
    world.drive("default/g")
    assert addresses(world, "f", "g") == ["10.0.0.2", "10.0.0.3"]


def test_a_new_kubelet_does_not_keep_the_addresses_of_pods_that_are_over() -> None:
    over = {**bound("a"), "status": {"phase": "Failed", "podIPs": [{"ip": "240.0.0.2"}]}}
    world = World(over, bound())
    world.drive()
    assert addresses(world, "web") == ["240.0.0.2"]


def test_address_of_a_pod_with_only_finalizers_left_is_released() -> None:
    world = World(bound(), bound("next"), on=[hollow_node(spec={"podCIDR": "10.0.0.0/30"})])  # room for one
    world.drive()
    world.ask_to_delete(grace=0, finalizers=["example.com/hold"])
    world.drive()
    world.drive("default/next")
    assert addresses(world, "next") == ["10.0.0.2"]


# Deletion.


def running(**options: Any) -> World:
    world = World(bound(**options))
    world.drive()
    return world


AT_ONCE = {behaviour.TERMINATE_AFTER: "0"}


def test_terminating_pod_gets_final_phase_and_is_deleted() -> None:
    world = running(annotations=AT_ONCE)
    uid = world.pod()["metadata"]["uid"]
    world.ask_to_delete()
    driven = world.drive()
    status, done = driven.commands
    assert isinstance(status, Patch)
    assert bodies(driven, Patch)[0]["status"]["phase"] == "Succeeded"
    assert (done.key, done.uid, done.grace_seconds) == (KEY, uid, 0)
    assert world.pod() is None


def test_unstarted_terminating_pod_fails_and_is_deleted_at_once() -> None:
    # Owners of finalizers, such as the Job controller, rely on the final phase.
    world = World(deleted(bound()))
    driven = world.drive()
    assert [type(command) for command in driven.commands] == [Patch, Delete]
    assert bodies(driven, Patch)[0]["status"]["phase"] == "Failed"


def test_pod_without_annotations_stops_after_a_moment() -> None:
    # Within this time kubectl begins to watch, before the next pod of the name is created.
    world = running()
    world.ask_to_delete()
    assert (world.drive().commands, world.drive().result.seconds) == ([], pytest.approx(TIME_TO_STOP))
    world.bench.clock.advance(2 * TIME_TO_STOP)
    assert [type(command) for command in world.drive().commands] == [Patch, Delete]


def test_a_pod_that_is_deleted_by_force_is_given_no_moment() -> None:
    world = running()
    world.ask_to_delete(grace=0)
    assert [type(command) for command in world.drive().commands] == [Patch, Delete]


def test_pod_is_given_its_time_to_stop() -> None:
    world = running(annotations={behaviour.TERMINATE_AFTER: "12"})
    world.ask_to_delete(grace=30)
    assert (world.drive().commands, world.drive().result.seconds) == ([], 12)
    world.bench.clock.advance(11)
    assert world.drive().result.seconds == 1
    world.bench.clock.advance(1)
    driven = world.drive()
    assert bodies(driven, Patch)[0]["status"]["phase"] == "Succeeded"
    assert world.pod() is None


def test_pod_is_killed_after_its_grace_period() -> None:
    world = running(annotations={behaviour.TERMINATE_AFTER: "100"})
    world.ask_to_delete(grace=30)
    assert world.drive().result.seconds == 30
    world.bench.clock.advance(30)
    status = bodies(world.drive(), Patch)[0]["status"]
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_shorter_grace_period_counts_from_the_first_deletion() -> None:
    world = running(annotations={behaviour.TERMINATE_AFTER: "100"})
    world.ask_to_delete(grace=30)
    world.drive()
    world.bench.clock.advance(4)
    world.ask_to_delete(grace=5)
    assert world.drive().result.seconds == 1


def test_pod_of_the_same_name_has_its_own_time_to_stop() -> None:
    world = running(annotations={behaviour.TERMINATE_AFTER: "12"})
    world.ask_to_delete()
    world.drive()
    world.bench.clock.advance(8)
    namesake = {**world.pod(), "metadata": {**world.pod()["metadata"], "uid": "another", "resourceVersion": "9000"}}
    world.bench.show(PODS, namesake)
    assert world.drive().result.seconds == 12


def test_all_pods_of_a_slow_node_are_slow_to_stop() -> None:
    world = World(bound(), on=[hollow_node(annotations={behaviour.TERMINATE_AFTER: "9"})])
    world.drive()
    world.ask_to_delete()
    assert world.drive().result.seconds == 9


def test_a_pod_that_finalizers_hold_is_stopped_and_deleted_only_once() -> None:
    world = running()
    world.ask_to_delete(grace=0, finalizers=["example.com/hold"])
    assert [type(command) for command in world.drive().commands] == [Patch]
    assert world.drive().commands == []


@pytest.mark.parametrize("outcome", [NotFound(), Conflict("another uid")])
def test_a_pod_that_went_without_us_is_fine(outcome: Outcome) -> None:
    world = running(annotations=AT_ONCE)
    world.ask_to_delete()
    driven = world.drive(answer=failing(after=0, outcome=outcome, to=Delete, otherwise=world.bench.accept))
    assert ([type(command) for command in driven.commands], driven.result) == ([Patch, Delete], None)


def test_a_kubelet_killed_between_its_two_writes_deletes_the_pod_later() -> None:
    world = running(annotations=AT_ONCE)
    world.ask_to_delete()
    stopped = world.drive(stop_after=1)
    assert [type(command) for command in stopped.commands] == [Patch]
    assert [type(command) for command in world.drive().commands] == [Patch, Delete]


# Enqueued keys.


def woken(world: World, resource: Resource, type: str, new: Object, old: Object | None = None) -> list[str]:
    raw = encode_object(new)
    change = Change(
        type=type, key=name_of(new), raw=raw, controller=None, previous=b"" if old is None else encode_object(old)
    )
    (watch,) = [watch for watch in kubelet_watches(FLEET) if watch.resource == resource]
    return sorted(watch.to(change, world.bench.tables))


NODE_EVENTS = {
    "a node that comes": ("ADDED", hollow_node(), None, ["default/a", "default/b"]),
    "a heartbeat": ("MODIFIED", hollow_node(labels={"x": "y"}), hollow_node(), []),
    "a node that falls silent": (
        "MODIFIED",
        hollow_node(annotations=SILENT),
        hollow_node(),
        ["default/a", "default/b"],
    ),
    "a node that speaks again": (
        "MODIFIED",
        hollow_node(),
        hollow_node(annotations=SILENT),
        ["default/a", "default/b"],
    ),
    "a node that begins to flap": (
        "MODIFIED",
        hollow_node(annotations={behaviour.FLAP: "60"}),
        hollow_node(),
        ["default/a", "default/b"],
    ),
    "a node that goes": ("DELETED", hollow_node(), hollow_node(), []),
}


@pytest.mark.parametrize("case", NODE_EVENTS)
def test_pods_are_enqueued_when_their_kubelet_starts_or_falls_silent(case: str) -> None:
    type, new, old, keys = NODE_EVENTS[case]
    world = World(bound("a"), bound("b"), bound("c", to="hollow-node-1"), unassigned("d"))
    assert woken(world, NODES, type, new, old) == keys


@pytest.mark.parametrize("pod, woke", [(bound(), True), (unassigned(), False), (bound(to="n1"), False)])
def test_only_pods_of_hollow_nodes_wake_the_kubelet(pod: Object, woke: bool) -> None:
    world = World(pod)
    (watch, _) = kubelet_watches(FLEET)
    change = Change(type="MODIFIED", key=KEY, raw=b"", controller=None)
    assert list(watch.to(change, world.bench.tables)) == ([KEY] if woke else [])


def test_deletion_of_a_pod_enqueues_its_key() -> None:
    (watch, _) = kubelet_watches(FLEET)
    change = Change(type="DELETED", key=KEY, raw=b"", controller=None)
    assert list(watch.to(change, World().bench.tables)) == [KEY]


@pytest.mark.parametrize(("grace", "seconds"), [(80, 79 + TIME_TO_STOP), (30, 30)])
def test_pod_stops_after_the_sleep_of_its_longest_hook_or_its_grace_period(grace: int, seconds: float) -> None:
    hooks = [
        {"name": f"c{sleep}", "image": "i", "lifecycle": {"preStop": {"sleep": {"seconds": sleep}}}}
        for sleep in (5, 79)
    ]
    world = running(containers=hooks)
    world.bench.show(PODS, deleted(world.pod(), grace=grace))
    assert world.drive().result.seconds == pytest.approx(seconds)


def test_invalid_annotations_of_a_pod_are_reported_once_and_the_pod_runs() -> None:
    pod = bound()
    pod["metadata"]["annotations"] = {
        behaviour.EXIT_CODE: "256",
        f"c.{behaviour.READY_AFTER}": "x" * 200_000,
        behaviour.RUN_SECONDS: "1e9",
        **{f"c{number}.{behaviour.START_SECONDS}": "-1" for number in range(50)},
    }
    world = World(pod)
    events = [event for event in world.drive().events if event[1] == "InvalidAnnotation"]
    assert events[0][2] == f"annotation {behaviour.EXIT_CODE}: '256' is not a number from 0 to 255"
    assert events[1][2].startswith(f"annotation c.{behaviour.READY_AFTER}: 'xxx")
    assert len(events) == 10
    assert all(len(event[2]) < 250 for event in events)
    assert [event for event in world.drive().events if event[1] == "InvalidAnnotation"] == []
