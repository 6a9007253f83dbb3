"""Traces of a rollout: bin/run-kcm sends its spans to a collector, and the API server receives their contexts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.conftest import in_namespace
from tests.e2e.faulty_proxy import Weather, faulty_proxy
from tests.e2e.programs import ending, hollow_nodes, managing, run_kcm, until
from tests.e2e.scenarios import until_rolled_out, workload
from tests.support.collector import Collector, collecting

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def attributes_of(span: Span) -> Mapping[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in span.attributes}


def header_of(span: Span) -> str:
    return f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"


def named(collector: Collector, name: str) -> list[Span]:
    return [span for span in collector.spans if span.name == name]


def test_collector_receives_the_spans_of_a_rollout_and_the_server_their_contexts(tmp_path: Path) -> None:
    file, weather = tmp_path / "tracing.yaml", Weather()
    own = launch(ServerSettings(directory=tmp_path / "kcm"))
    try:
        with (
            collecting() as collector,
            hollow_nodes(own.kubeconfig, tmp_path / "hollow.log"),
            faulty_proxy(own.kubeconfig, weather) as proxied,
        ):
            file.write_text(f"{HEAD}endpoint: {collector.endpoint}\nsamplingRatePerMillion: 1000000\n")
            flags = (f"--kubeconfig={proxied.kubeconfig}", "--leader-elect=false", f"--tracing-config-file={file}")
            with managing(tmp_path / "kcm.log", *flags):
                kubectl = in_namespace(own.kubeconfig, "traced")
                deployment = workload("Deployment", "web", 2, "web:1")
                deployment["metadata"]["annotations"] = {"tracing.k8s.io/traceparent": CALLER}
                kubectl.apply(deployment)
                until_rolled_out(kubectl, "web", 2, "web:1")
                until(lambda: len(named(collector, "create pods")) >= 2, "the collector has the spans of the pods")
        # The end of the process has exported the remaining spans.
        [replica_set] = named(collector, "create replicasets.apps")
        pods = named(collector, "create pods")
        roots = {span.span_id: span for span in collector.spans if not span.parent_span_id}
        cause = roots[replica_set.parent_span_id]
        assert attributes_of(cause)["kcm.key"] == "traced/web"
        assert CALLER.split("-")[1] in {link.trace_id.hex() for link in cause.links}
        [creation] = {pod.parent_span_id for pod in pods}
        assert attributes_of(roots[creation])["kcm.controller"] == "replicaset-controller"
        assert replica_set.span_id in {link.span_id for link in roots[creation].links}
        assert weather.traced[header_of(replica_set)] == "POST /apis/apps/v1/namespaces/traced/replicasets"
        assert {weather.traced[header_of(pod)] for pod in pods} == {"POST /api/v1/namespaces/traced/pods"}
        assert set(weather.traced) <= {header_of(span) for span in collector.spans}
    finally:
        own.stop()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, "failed to read tracing config: unable to read tracing configuration from"),
        (
            f"{HEAD}samplingRatePerMillion: -1\n",
            (
                "failed to validate tracing configuration: samplingRatePerMillion: Invalid value: -1: "
                "sampling rate must be positive"
            ),
        ),
    ],
)
def test_invalid_tracing_configuration_ends_the_start(tmp_path: Path, content: str | None, error: str) -> None:
    file = tmp_path / "tracing.yaml"
    if content is not None:
        file.write_text(content)
    manager = run_kcm(tmp_path / "kcm.log", f"--tracing-config-file={file}", f"--embedded-dir={tmp_path / 'kcm'}")
    with ending(manager.program):
        assert manager.program.process.wait(60.0) == 1
    assert error.format(file=file) in manager.program.text()
