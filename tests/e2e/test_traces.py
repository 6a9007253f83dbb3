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
from tests.e2e.forks import Forks
from tests.e2e.programs import ending, hollow_nodes, managing, run_kcm, until
from tests.e2e.real_server import assets_or_skip, real_server
from tests.e2e.scenarios import until_rolled_out, workload
from tests.support.collector import Collector, collecting
from tests.support.grpc_collector import collecting_grpc

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


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("is_privileged", [True, False], ids=["system:masters", "accounts"])
def test_spans_of_kube_apiserver_join_those_of_writes(tmp_path: Path, is_privileged: bool) -> None:
    """Traces of system:masters are continued by kube-apiserver; those of others are links of its own traces."""
    traced, collected = tmp_path / "apiserver-tracing.yaml", tmp_path / "tracing.yaml"
    with collecting() as ours, collecting_grpc() as of_server:
        traced.write_text(f"{HEAD}endpoint: {of_server.endpoint}\nsamplingRatePerMillion: 1000000\n")
        collected.write_text(f"{HEAD}endpoint: {ours.endpoint}\n")  # only the annotated Deployment is sampled
        with real_server(tmp_path, assets_or_skip(), f"--tracing-config-file={traced}") as server:
            kubeconfig = server.kubeconfig if is_privileged else server.manager_kubeconfig
            kubectl = in_namespace(server.kubeconfig, "traced")
            flags = (f"--kubeconfig={kubeconfig}", "--leader-elect=false", f"--tracing-config-file={collected}")
            accounts = f"--use-service-account-credentials={str(not is_privileged).lower()}"
            manager = run_kcm(tmp_path / "kcm.log", *flags, "--controllers=deployment,replicaset", accounts)
            with ending(manager.program):
                for name, annotations in (("web", {"tracing.k8s.io/traceparent": CALLER}), ("other", {})):
                    deployment = workload("Deployment", name, 1, "web:1")
                    deployment["metadata"]["annotations"] = annotations
                    kubectl.apply(deployment)
                until(lambda: len(kubectl.items("pods")) == 2, "both have a pod", why=manager.program.text)

            def answered() -> dict[str, Span]:
                """Return the server's spans of our writes by the identifier of our span."""
                spans = [span for span in of_server.spans if span.name.startswith("POST /")]
                if is_privileged:
                    return {span.parent_span_id.hex(): span for span in spans}
                return {link.span_id.hex(): span for span in spans for link in span.links}

            def both() -> list[tuple[Span, Span]]:
                writes = [*named(ours, "create replicasets.apps"), *named(ours, "create pods")]
                return [(write, found) for write in writes if (found := answered().get(write.span_id.hex()))]

            until(lambda: len(both()) == 2, "the server has exported its spans", why=lambda: str(both()))
    roots = {span.span_id: span for span in ours.spans if not span.parent_span_id}
    [(replica_set, set_served), (pod, pod_served)] = both()
    assert CALLER.split("-")[1] in {link.trace_id.hex() for link in roots[replica_set.parent_span_id].links}
    assert set_served.name == "POST /apis/apps/v1/namespaces/{:namespace}/replicasets"
    assert pod_served.name == "POST /api/v1/namespaces/{:namespace}/pods"
    for write, served in ((replica_set, set_served), (pod, pod_served)):
        assert (served.trace_id == write.trace_id) is is_privileged
        assert {link.trace_id for link in served.links} == (set() if is_privileged else {write.trace_id})


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
def test_invalid_tracing_configuration_ends_the_start(
    tmp_path: Path, content: str | None, error: str, forks: Forks
) -> None:
    file = tmp_path / "tracing.yaml"
    if content is not None:
        file.write_text(content)
    done = forks.run(f"--tracing-config-file={file}", "--secure-port=0", f"--embedded-dir={tmp_path / 'kcm'}")
    assert done.returncode == 1
    assert error.format(file=file) in done.stderr
