"""Spans of reconciliations and writes, with exporters in memory and on virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from structlog.typing import FilteringBoundLogger

from kcm import testing
from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.engine.controller import ControllerSettings, QueueSettings
from kcm.actors.engine.spans import ANNOTATION, Tracing, parse_traceparent
from kcm.actors.options import Options
from kcm.actors.reconciliation import Change, RequeueAfter
from kcm.actors.reconciliation.failures import Retry, TerminalError
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.reconciliation.watches import Watch, itself
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.commands import (
    Command,
    Create,
    Delete,
    Fetch,
    List,
    Patch,
    PatchType,
    Submit,
    Update,
)
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import encode_object
from kcm.protocols.resources import CONFIGMAPS, DEPLOYMENTS, PODS
from kcm.runtime.client.api import Request, Response
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.transport import SimulatedTransport
from kcm.runtime.tables.tables import Tables
from kcm.runtime.tracing.sampler import CauseSampler

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
}
DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


REPLACE = Update(CONFIGMAPS.id, "default/a", b"{}")


def config_map(version: str) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": version}}


class RecordingTransport(SimulatedTransport):
    """Transport that keeps the requests that are sent, without watches."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.sent: list[Request] = []

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        self.sent.append(request)
        super().send(request, client=client, on_response=on_response)


class TracedManager:
    """Controller manager of a simulated cluster, with its spans in memory."""

    def __init__(
        self, cluster: testing.SimulatedCluster, specs: Iterable[ControllerSpec], *, log: Any, rate: float | None = 1.0
    ) -> None:
        """Start a manager. rate: see CauseSampler; None: without traces."""
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=CauseSampler(rate or 0.0), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        process = cluster.world.process("traced")
        self.transport = RecordingTransport(cluster.network, "traced", process.http)
        self.system = ControllerSystem(
            transport=self.transport,
            log=log,
            controllers=specs,
            options=Options(),
            clock=process.clock,
            spawner=process,
            calls=cluster.calls.of_process("traced", process),
            seed=1,
            tracer=provider.get_tracer("test") if rate is not None else None,
        ).start()

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def named(self, name: str, **attributes: object) -> list[ReadableSpan]:
        wanted = {f"kcm.{key}": value for key, value in attributes.items()}.items()
        return [span for span in self.spans if span.name == name and wanted <= (span.attributes or {}).items()]

    def parent_of(self, child: ReadableSpan) -> ReadableSpan:
        assert child.parent is not None
        [parent] = [span for span in self.spans if span.context.span_id == child.parent.span_id]
        return parent


def links_of(span: ReadableSpan) -> set[int]:
    return {link.context.span_id for link in span.links}


def of_config_maps(reconcile: Callable[[Any, Any], Any]) -> ControllerSpec:
    """Return a controller with this reconciler, whose keys are those of ConfigMaps."""

    class Reconciler:
        def __init__(self, _context: Any) -> None: ...

        def reconcile(self, key: str) -> Any:
            return reconcile(self, key)

    return ControllerSpec(
        name="traced", queues=(Queue("maps", watches=(Watch(CONFIGMAPS, itself),)),), build=Reconciler
    )


def test_writes_of_a_rollout_are_children_of_their_reconciliations(
    cluster: testing.SimulatedCluster, log: FilteringBoundLogger
) -> None:
    traced = TracedManager(cluster, BUILT_IN, log=log)
    cluster.create(DEPLOYMENTS, DEPLOYMENT)
    cluster.run_for(10)
    [created] = traced.named("create replicasets.apps")
    attributes = dict(created.attributes or {})
    assert attributes.pop("kcm.object").startswith("default/web-")
    assert int(attributes.pop("kcm.resource_version")) > 0
    assert attributes == {
        "kcm.verb": "create",
        "kcm.resource": "replicasets.apps",
        "kcm.outcome": "Done",
        "kcm.outcome_unknown": False,
        "http.request.method": "POST",
        "http.response.status_code": 201,
        "url.path": "/apis/apps/v1/namespaces/default/replicasets",
    }
    assert (created.kind, [event.name for event in created.events]) == (SpanKind.CLIENT, ["sent"])
    root = traced.parent_of(created)
    assert (root.name, root.kind, root.parent) == ("reconcile deployment", SpanKind.CONSUMER, None)
    assert root.attributes is not None
    assert root.attributes["kcm.key"] == "default/web"
    assert root.attributes["kcm.controller"] == "deployment-controller"
    assert (root.attributes["kcm.incarnation"], root.attributes["kcm.retries"]) == (1, 0)
    assert root.attributes["kcm.result"] == "requeue_after"  # to check the progress deadline
    [woken_by] = root.attributes["kcm.woken_by"]  # type: ignore[misc, union-attr]
    assert woken_by.startswith("ADDED deployments.apps default/web at ")
    assert len(traced.named("create pods")) == 2


def test_reconciliation_links_to_the_write_whose_event_woke_it(
    cluster: testing.SimulatedCluster, log: FilteringBoundLogger
) -> None:
    traced = TracedManager(cluster, BUILT_IN, log=log)
    cluster.create(DEPLOYMENTS, DEPLOYMENT)
    cluster.run_for(10)
    [replica_set] = traced.named("create replicasets.apps")
    pods = traced.named("create pods")
    [of_pods] = {traced.parent_of(pod).context.span_id for pod in pods}
    [creating] = [span for span in traced.spans if span.context.span_id == of_pods]
    assert creating.name == "reconcile replicaset"
    assert replica_set.context.span_id in links_of(creating)
    assert creating.context.trace_id != replica_set.context.trace_id
    woken = [
        span for span in traced.named("reconcile replicaset") if links_of(span) & {p.context.span_id for p in pods}
    ]
    assert woken


def test_written_requests_carry_the_span_of_the_write(
    cluster: testing.SimulatedCluster, log: FilteringBoundLogger
) -> None:
    traced = TracedManager(cluster, BUILT_IN, log=log)
    cluster.create(DEPLOYMENTS, DEPLOYMENT)
    cluster.run_for(10)
    headers = {request.traceparent for request in traced.transport.sent} - {""}
    writes = [span for span in traced.spans if span.kind is SpanKind.CLIENT]
    assert headers == {f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01" for span in writes}
    events = [request for request in traced.transport.sent if "/events" in request.path]
    assert events
    assert {request.traceparent for request in events} == {""}  # the recorder combines events of many reconciliations


def test_annotation_of_the_object_is_linked_and_decides_on_sampling(
    cluster: testing.SimulatedCluster, log: FilteringBoundLogger
) -> None:
    traced = TracedManager(cluster, BUILT_IN, log=log, rate=0.0)
    cluster.create(DEPLOYMENTS, {**DEPLOYMENT, "metadata": {"name": "plain"}})
    cluster.run_for(10)
    assert traced.spans == ()
    assert {request.traceparent for request in traced.transport.sent} == {""}
    cluster.create(DEPLOYMENTS, {**DEPLOYMENT, "metadata": {"name": "web", "annotations": {ANNOTATION: CALLER}}})
    cluster.run_for(10)
    roots = traced.named("reconcile deployment")
    assert {(span.attributes or {})["kcm.key"] for span in roots} == {"default/web"}
    [link] = [link for link in roots[0].links if (link.attributes or {})["kcm.cause"] == "annotation"]
    assert (f"{link.context.trace_id:x}", link.context.is_remote) == (CALLER.split("-")[1], True)
    assert traced.named("create replicasets.apps")
    assert len(traced.named("create pods")) == 2  # by the link to the write that is sampled


def test_unsampled_annotation_is_linked_but_does_not_sample(
    cluster: testing.SimulatedCluster, log: FilteringBoundLogger
) -> None:
    traced = TracedManager(cluster, BUILT_IN, log=log, rate=0.0)
    annotations = {ANNOTATION: CALLER.removesuffix("1") + "0"}
    cluster.create(DEPLOYMENTS, {**DEPLOYMENT, "metadata": {"name": "web", "annotations": annotations}})
    cluster.run_for(10)
    assert traced.spans == ()


@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_traces_change_no_request(
    make_cluster: Callable[..., testing.SimulatedCluster], log: FilteringBoundLogger, rate: float
) -> None:
    runs = []
    for chosen in (None, rate):
        cluster = make_cluster(seed=3)
        traced = TracedManager(cluster, BUILT_IN, log=log, rate=chosen)
        cluster.create(DEPLOYMENTS, DEPLOYMENT)
        cluster.run_for(30)
        runs.append([(request.method, request.path, request.body) for request in traced.transport.sent])
    assert runs[0] == runs[1]


def test_results_and_retries_of_a_key_are_recorded(
    cluster: testing.SimulatedCluster, log: FilteringBoundLogger
) -> None:
    ends: list[Exception | RequeueAfter | None] = [
        ValueError("broken"),
        Retry("not yet", after=1.0),
        RequeueAfter(2.0),
        TerminalError("never"),
    ]

    def reconcile(_self: Any, _key: str) -> Any:
        yield from ()
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    traced = TracedManager(cluster, [of_config_maps(reconcile)], log=log)
    cluster.create(CONFIGMAPS, {"metadata": {"name": "a"}})
    cluster.run_for(10)
    found = [dict(span.attributes or {}) for span in traced.spans]
    results = [(each["kcm.result"], each["kcm.retries"], each.get("error.type")) for each in found]
    assert results == [
        ("error", 0, "raised"),
        ("requeue_after", 1, None),
        ("requeue_after", 2, None),
        ("error", 0, "raised"),
    ]
    assert (found[1]["kcm.requeue_reason"], found[2]["kcm.requeue_after_seconds"]) == ("Retry: not yet", 2.0)
    codes = [span.status.status_code for span in traced.spans]
    assert codes == [StatusCode.ERROR, StatusCode.UNSET, StatusCode.UNSET, StatusCode.ERROR]
    begun = [span.start_time or 0 for span in traced.spans]
    assert round((begun[2] - begun[1]) / 1e9, 2) == 1.0  # by the clock of the simulation
    assert round((begun[3] - begun[2]) / 1e9, 2) == 2.0


def test_outcomes_of_failed_writes_are_recorded(cluster: testing.SimulatedCluster, log: FilteringBoundLogger) -> None:
    existing = encode_object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})

    def reconcile(_self: Any, _key: str) -> Any:
        yield [
            Create(CONFIGMAPS.id, "default", existing),
            Patch(PODS.id, "default/missing", b"{}", PatchType.MERGE, "status"),
        ]

    traced = TracedManager(cluster, [of_config_maps(reconcile)], log=log)
    cluster.create(CONFIGMAPS, {"metadata": {"name": "a"}})
    cluster.run_for(5)
    [created], [patched] = traced.named("create configmaps"), traced.named("patch pods")
    assert created.attributes is not None
    assert patched.attributes is not None
    assert (created.attributes["kcm.outcome"], created.attributes["http.response.status_code"]) == (
        "AlreadyExists",
        409,
    )
    assert (patched.attributes["kcm.outcome"], patched.attributes["kcm.subresource"]) == ("NotFound", "status")
    assert patched.attributes["error.type"] == "not_found"
    assert {created.status.status_code, patched.status.status_code} == {StatusCode.ERROR}


def test_write_without_response_has_an_unknown_outcome(
    cluster: testing.SimulatedCluster, log: FilteringBoundLogger
) -> None:
    def reconcile(_self: Any, _key: str) -> Any:
        yield Patch(CONFIGMAPS.id, "default/a", b'{"data":{"a":"b"}}', PatchType.MERGE)

    traced = TracedManager(cluster, [of_config_maps(reconcile)], log=log)
    cluster.run_for(2)
    send = traced.transport.send

    def lose(request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        if request.method == "PATCH":
            on_response(Response(status=0, error="timeout"))
        else:
            send(request, client=client, on_response=on_response)

    traced.transport.send = lose  # type: ignore[method-assign]
    cluster.create(CONFIGMAPS, {"metadata": {"name": "a"}})
    cluster.run_for(0.004)
    patched = traced.named("patch configmaps")[0]
    assert patched.attributes is not None
    assert patched.attributes["kcm.outcome_unknown"] is True
    assert patched.attributes["error.type"] == "unknown_outcome"
    assert "http.response.status_code" not in patched.attributes
    assert (patched.status.status_code, patched.status.description) == (StatusCode.ERROR, "Unknown: timeout")


def test_restarted_controller_has_another_incarnation(
    cluster: testing.SimulatedCluster, log: FilteringBoundLogger
) -> None:
    def reconcile(_self: Any, _key: str) -> Any:
        yield from ()

    traced = TracedManager(cluster, [of_config_maps(reconcile)], log=log)
    cluster.create(CONFIGMAPS, {"metadata": {"name": "a"}})
    cluster.run_for(5)
    traced.system.restart("traced")
    cluster.run_for(30)
    assert [(span.attributes or {})["kcm.incarnation"] for span in traced.spans] == [1, 2]


class TracingRig:
    """Spans of one controller without actors, whose reconciliations are caused by message 7 of a journal."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=CauseSampler(1.0), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(provider.get_tracer("test"), clock=VirtualClock(), handled_now=lambda: 7)
        queue = QueueSettings(name="maps", watches=(Watch(CONFIGMAPS, itself),))
        settings = ControllerSettings(name="a", client="a", component="a", queues=(queue,))
        self.tables = Tables({})
        queues = {"maps": WorkQueue[str](now=0.0)}
        [(self.watch, _)] = self.tracing.follow("a", 1, settings=settings, tables=self.tables, queues=queues)

    def see(self, version: str, *, type: str = EventType.MODIFIED) -> None:
        """Let the watch see a version of the ConfigMap."""
        raw = encode_object(config_map(version))
        self.watch.to(Change(type=type, key="default/a", raw=raw, controller=None), self.tables)

    def reconcile(self, *written: str, command: Command = REPLACE) -> ReadableSpan:
        """Reconcile the ConfigMap with a write for each of the versions, and return the span of the reconciliation."""
        self.tracing.begin("a", "maps", "default/a")
        for number, version in enumerate(written):
            submit = Submit("a", 1, "a", number, (command,), "maps", "default/a")
            [span] = self.tracing.begin_writes(submit, 9) or ()
            span.end(Done(encode_object(config_map(version))))
        self.tracing.end("a", "maps", "default/a", None)
        return self.exporter.get_finished_spans()[-1]

    @property
    def writes(self) -> list[int]:
        """Return the ids of the spans of writes, in order."""
        return [s.context.span_id for s in self.exporter.get_finished_spans() if s.kind is SpanKind.CLIENT]


def test_events_of_each_of_several_writes_are_linked() -> None:
    rig = TracingRig()
    rig.reconcile("5", "6", "7", "8", "9")
    rig.see("6")
    rig.see("9")
    assert links_of(rig.reconcile()) == {rig.writes[1], rig.writes[4]}
    assert links_of(rig.reconcile()) == set()  # each event counts once


def test_event_that_precedes_the_response_to_its_write_is_linked_when_the_response_arrives() -> None:
    rig = TracingRig()
    rig.see("5")
    assert links_of(rig.reconcile("4", "5")) == {rig.writes[1]}
    rig.see("6")
    rig.reconcile()
    assert links_of(rig.reconcile("6")) == set()  # it is over, and the next one was not woken by the event


def test_versions_of_other_writers_and_forgotten_writes_are_not_linked() -> None:
    rig = TracingRig()
    rig.reconcile("5", "6", "7", "8", "9")
    for version in ("5", "10"):
        rig.see(version)
    span = rig.reconcile()
    assert links_of(span) == set()
    assert (span.attributes or {})["kcm.woken_by"] == (
        "MODIFIED configmaps default/a at 5",
        "MODIFIED configmaps default/a at 10",
    )


def test_deletion_is_linked_whatever_its_version() -> None:
    rig = TracingRig()
    rig.reconcile("5", command=Delete(CONFIGMAPS.id, "default/a"))
    rig.see("6", type=EventType.DELETED)
    assert links_of(rig.reconcile()) == set(rig.writes)


def test_newest_events_of_a_key_are_recorded() -> None:
    rig = TracingRig()
    for version in range(1, 13):
        rig.see(str(version))
    woken_by = (rig.reconcile().attributes or {})["kcm.woken_by"]
    assert woken_by == tuple(f"MODIFIED configmaps default/a at {version}" for version in range(5, 13))


def test_spans_have_the_number_of_their_message_in_the_journal() -> None:
    rig = TracingRig()
    rig.reconcile("5")
    write, reconciliation = rig.exporter.get_finished_spans()
    assert (write.attributes or {})["kcm.journal.message"] == 9
    assert (reconciliation.attributes or {})["kcm.journal.message"] == 7


@pytest.mark.parametrize(
    ("command", "name", "attributes"),
    [
        (Fetch("/apis"), "fetch", {"kcm.command": "get /apis"}),
        (Call("bill", b"", 1.0, "default/a"), "call bill", {"kcm.command": "call bill default/a"}),
        (
            List(PODS.id, "shop"),
            "list pods",
            {"kcm.verb": "list", "kcm.resource": "pods", "kcm.object": "in shop"},
        ),
    ],
)
def test_commands_other_than_writes_have_spans(command: Command, name: str, attributes: dict[str, str]) -> None:
    rig = TracingRig()
    rig.reconcile("5", command=command)
    span = rig.exporter.get_finished_spans()[0]
    assert span.name == name
    assert attributes.items() <= dict(span.attributes or {}).items()


def test_commands_of_another_incarnation_have_no_spans() -> None:
    rig = TracingRig()
    rig.tracing.begin("a", "maps", "default/a")
    assert rig.tracing.begin_writes(Submit("a", 2, "a", 1, (REPLACE,), "maps", "default/a"), 0) is None


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        CALLER.upper(),
        CALLER.replace("00-4", "ff-4"),
        CALLER + "-more",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
    ],
)
def test_invalid_traceparent_is_ignored(text: object) -> None:
    assert parse_traceparent(text) is None


def test_traceparent_of_a_later_version_may_have_more_fields() -> None:
    span = parse_traceparent(f"01{CALLER[2:]}-more")
    assert span is not None
    assert (span.span_id, span.trace_flags.sampled) == (0xF067AA0BA902B7, True)
