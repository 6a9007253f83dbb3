"""Webhooks of controllers in a simulated cluster: served by every process, with certificates that are rotated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kcm.actors.engine.elector import Election
from kcm.actors.engine.webhooks.configurations import MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS
from kcm.actors.reconciliation import ControllerSpec, Queue, Reconciliation, Watch, itself
from kcm.actors.reconciliation.webhooks import AdmissionRequest, AdmissionWebhook, Denied, convert, mutate, validate
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Invalid, ServerFailure
from kcm.protocols.objects import Object, annotations_of, labels_of
from kcm.protocols.resources import CONFIGMAPS, CUSTOM_RESOURCE_DEFINITIONS, SECRETS, Resource
from kcm.runtime.faults.vocabulary import Fault, FaultKind, parse_faults
from kcm.runtime.simulation.webhooks import NotIdempotentError
from kcm.runtime.x509.key_rings import CertificateLives
from kcm.runtime.x509.rotation import authorities_in

SECRET = "kube-system/simulated-webhook"
V1, V2 = (Resource(group="example.com", version=version, plural="gauges", kind="Gauge") for version in ("v1", "v2"))


class Idle:
    def reconcile(self, _key: str) -> Reconciliation:
        return None
        yield


def check(request: AdmissionRequest[Object]) -> None:
    if (request.new.get("data") or {}).get("size") == "big":
        raise Denied("too large", fields={"data.size": "must be small"})


def paint(request: AdmissionRequest[Object]) -> Object:
    request.new["data"] = {"color": "red", **(request.new.get("data") or {})}
    return request.new


def upgrade(obj: Object) -> Object:
    return {**obj, "spec": {"degrees": obj["spec"]["value"]}}


def downgrade(obj: Object) -> Object:
    return {**obj, "spec": {"value": obj["spec"]["degrees"]}}


def spec(*admission: AdmissionWebhook, **more: Any) -> ControllerSpec:
    watches = (Watch(CONFIGMAPS, to=itself),)
    return ControllerSpec(
        name="painter", build=lambda _context: Idle(), queues=(Queue(watches=watches),), admission=admission, **more
    )


PAINTER = spec(validate(CONFIGMAPS, check), mutate(CONFIGMAPS, paint))


def configmap(name: str, **data: str) -> Object:
    return {"metadata": {"name": name}, "data": data}


def is_configured(cluster: SimulatedCluster) -> bool:
    return cluster.get(VALIDATING_CONFIGURATIONS, "simulated") is not None


@pytest.fixture
def painted(cluster: SimulatedCluster) -> SimulatedCluster:
    cluster.manager(controllers=(PAINTER,))
    assert cluster.run_until(lambda: is_configured(cluster), within=10)
    return cluster


def test_objects_are_validated_and_mutated(painted: SimulatedCluster) -> None:
    assert painted.create(CONFIGMAPS, configmap("a"))["data"] == {"color": "red"}
    with pytest.raises(CommandError) as caught:
        painted.create(CONFIGMAPS, configmap("b", size="big"))
    assert isinstance(caught.value.failure, Invalid)
    assert (
        'admission webhook "validate.configmaps.core" denied the request: too large: data.size: must be small'
        in str(caught.value)
    )
    assert {path for _, _, path in painted.webhooks.called} == {
        "/mutate/mutate.configmaps.core",
        "/validate/validate.configmaps.core",
    }


def test_the_control_plane_is_written_while_no_webhook_is_served(painted: SimulatedCluster) -> None:
    painted.crash("manager")
    with pytest.raises(CommandError) as caught:
        painted.create(CONFIGMAPS, configmap("a"))
    assert isinstance(caught.value.failure, ServerFailure)
    assert "connection refused" in str(caught.value)
    painted.create(CONFIGMAPS, {"metadata": {"name": "a", "namespace": "kube-system"}})
    painted.start_again("manager")
    assert painted.run_until(lambda: bool(painted.webhooks._hosts), within=60)
    painted.create(CONFIGMAPS, configmap("a"))


def test_each_replica_serves_and_only_the_leader_writes(cluster: SimulatedCluster) -> None:
    for identity in ("one", "two"):
        cluster.manager(controllers=(PAINTER,), election=Election(identity=identity, namespace="default", name="p"))
    assert cluster.run_until(lambda: is_configured(cluster), within=60)
    cluster.run_for(10)
    for number in range(4):
        cluster.create(CONFIGMAPS, configmap(f"c{number}"))
    assert {process for _, process, _ in cluster.webhooks.called} == {"manager", "manager-2"}
    secrets = [request for _, _, request in cluster.network.requests if request.method == "POST"]
    assert len([request for request in secrets if request.path.endswith("/secrets")]) == 1


def test_a_foreign_change_of_a_configuration_is_reverted(painted: SimulatedCluster) -> None:
    webhooks = (painted.get(VALIDATING_CONFIGURATIONS, "simulated") or {})["webhooks"]
    broken = [{**webhooks[0], "failurePolicy": "Ignore", "clientConfig": {"url": "https://elsewhere.example"}}]
    painted.merge(VALIDATING_CONFIGURATIONS, "simulated", {"webhooks": broken})
    painted.run_for(5)
    assert (painted.get(VALIDATING_CONFIGURATIONS, "simulated") or {})["webhooks"] == webhooks
    painted.delete(MUTATING_CONFIGURATIONS, "simulated")
    assert painted.run_until(lambda: painted.get(MUTATING_CONFIGURATIONS, "simulated") is not None, within=10)


def test_the_configuration_of_former_webhooks_is_deleted(painted: SimulatedCluster) -> None:
    painted.crash("manager")
    painted.manager(controllers=(spec(validate(CONFIGMAPS, check)),))
    assert painted.run_until(lambda: painted.get(MUTATING_CONFIGURATIONS, "simulated") is None, within=60)
    assert is_configured(painted)


def test_a_deleted_secret_is_replaced(painted: SimulatedCluster) -> None:
    painted.delete(SECRETS, SECRET)
    assert painted.run_until(lambda: painted.get(SECRETS, SECRET) is not None, within=10)
    painted.run_for(10)
    painted.create(CONFIGMAPS, configmap("a"))


def bundle(cluster: SimulatedCluster) -> bytes:
    from base64 import b64decode

    secret = cluster.get(SECRETS, SECRET) or {}
    return b64decode(secret["data"]["ca.crt"])


def test_certificates_are_rotated_without_a_refused_request(cluster: SimulatedCluster) -> None:
    """A request every two seconds, for several lives of the CA, with two replicas."""
    cluster.certificate_lives = CertificateLives(serving=60.0, authority=150.0, settle=3.0, overlap=12.0)
    for identity in ("one", "two"):
        cluster.manager(controllers=(PAINTER,), election=Election(identity=identity, namespace="default", name="p"))
    assert cluster.run_until(lambda: is_configured(cluster), within=60)
    cluster.run_for(5)
    bundles, certificates = set(), set()
    for number in range(240):
        cluster.create(CONFIGMAPS, configmap(f"c{number}"))
        bundles.add(authorities_in(bundle(cluster)))
        certificates.add((cluster.get(SECRETS, SECRET) or {})["data"]["tls.crt"])
        cluster.run_for(2)
    authorities = frozenset[bytes]().union(*bundles)
    assert len(authorities) >= 4
    assert {len(found) for found in bundles} == {1, 2}
    assert len(certificates) >= 8


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("webhook-down", "connect: connection refused"),
        ("webhook-answered", "the server is currently unable to handle the request"),
        ("webhook-expired", "certificate has expired or is not yet valid"),
    ],
)
def test_faults_of_webhooks_fail_requests(fault: str, error: str) -> None:
    cluster = SimulatedCluster(faults=parse_faults(f"{fault} 20..30 status=503 resource=/validate/*"))
    cluster.manager(controllers=(PAINTER,))
    cluster.run_for(19)
    cluster.create(CONFIGMAPS, configmap("before"))
    cluster.run_for(5)
    with pytest.raises(CommandError, match=error):
        cluster.create(CONFIGMAPS, configmap("during"))
    cluster.run_for(10)
    cluster.create(CONFIGMAPS, configmap("after"))


class Writer:
    """Creates a ConfigMap for each Secret in the namespace default."""

    def __init__(self, context: Any) -> None:
        self._configmaps = context.tables[CONFIGMAPS]

    def reconcile(self, key: str) -> Reconciliation:
        from kcm.actors.reconciliation import ensure

        if key.startswith("default/"):
            meta = {"name": key.removeprefix("default/"), "namespace": "default"}
            yield from ensure(self._configmaps, {"metadata": meta, "data": {"size": "small"}})
        return None


@pytest.mark.parametrize(("seconds", "least"), [(3.0, 3.0), (60.0, 5.0)])
def test_a_slow_webhook_delays_or_fails_the_request(seconds: float, least: float) -> None:
    fault = Fault(kind=FaultKind.WEBHOOK_SLOW, start=10.0, until=14.0, seconds=seconds, resource="/validate/*")
    cluster = SimulatedCluster(faults=(fault,))
    watches = (Watch(SECRETS, to=itself, namespaces=("default",)),)
    writer = ControllerSpec(name="writer", build=Writer, queues=(Queue(watches=watches),), reads=(CONFIGMAPS,))
    cluster.manager(controllers=(PAINTER, writer))
    cluster.run_for(10.5)
    cluster.create(SECRETS, {"metadata": {"name": "s", "namespace": "default"}})
    began = cluster.clock.monotonic()
    assert cluster.run_until(lambda: cluster.get(CONFIGMAPS, "default/s") is not None, within=60)
    assert cluster.clock.monotonic() - began >= least


def test_a_function_that_is_not_idempotent_ends_the_run(cluster: SimulatedCluster) -> None:
    def count(request: AdmissionRequest[Object]) -> Object:
        data = request.new.get("data") or {}
        request.new["data"] = {**data, "count": str(int(data.get("count", "0")) + 1)}
        return request.new

    cluster.manager(controllers=(spec(mutate(CONFIGMAPS, count)),))
    cluster.run_for(10)
    with pytest.raises(NotIdempotentError, match=r"/mutate/mutate\.configmaps\.core changes its own result again"):
        cluster.create(CONFIGMAPS, configmap("a"))


def test_a_function_reads_the_tables_of_its_controller(cluster: SimulatedCluster) -> None:
    def unique(request: AdmissionRequest[Object]) -> None:
        assert request.tables is not None
        others = request.tables[CONFIGMAPS].objects("default")
        if any((other.get("data") or {}).get("host") == request.new["data"]["host"] for other in others):
            raise Denied("the host is taken")

    cluster.manager(controllers=(spec(validate(CONFIGMAPS, unique)),))
    cluster.run_for(10)
    cluster.create(CONFIGMAPS, configmap("a", host="x"))
    cluster.run_for(1)
    with pytest.raises(CommandError, match="the host is taken"):
        cluster.create(CONFIGMAPS, configmap("b", host="x"))


def test_webhooks_are_not_served_until_the_tables_are_synced() -> None:
    cluster = SimulatedCluster(faults=parse_faults("command-answered 0..8 status=500 resource=configmaps"))
    system = cluster.manager(controllers=(PAINTER,))
    cluster.run_for(7)
    assert system.checks()["webhooks"]() == "tables are not synced yet"
    assert not is_configured(cluster)
    assert cluster.run_until(lambda: is_configured(cluster), within=60)
    assert system.checks()["webhooks"]() is None


def test_a_dry_run_calls_webhooks_and_stores_nothing(painted: SimulatedCluster) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", **configmap("a")}
    response = painted.request("POST", "/api/v1/namespaces/default/configmaps", body, query={"dryRun": "All"})
    assert (response.status, b'"color":"red"' in response.body) == (201, True)
    assert painted.get(CONFIGMAPS, "default/a") is None


def definition() -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v2", "schema": schema} for name in ("v1", "v2")]
    return {
        "metadata": {"name": "gauges.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "gauges", "kind": "Gauge", "singular": "gauge", "listKind": "GaugeList"},
            "scope": "Namespaced",
            "versions": versions,
        },
    }


def test_objects_are_converted_between_versions(cluster: SimulatedCluster) -> None:
    conversion = (convert(V1, V2, upgrade), convert(V2, V1, downgrade))
    cluster.manager(controllers=(spec(conversion=conversion),))
    cluster.run_for(5)
    cluster.create(CUSTOM_RESOURCE_DEFINITIONS, definition())

    def strategy() -> str:
        found = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, "gauges.example.com") or {}
        return str((found["spec"].get("conversion") or {}).get("strategy"))

    assert cluster.run_until(lambda: strategy() == "Webhook", within=30)
    cluster.run_for(5)
    made = cluster.create(V1, {"metadata": {"name": "g", "labels": {"a": "b"}}, "spec": {"value": 3}})
    assert (made["apiVersion"], made["spec"], labels_of(made)) == ("example.com/v1", {"value": 3}, {"a": "b"})
    stored = cluster.get(V2, "default/g") or {}
    assert (stored["spec"], labels_of(stored), annotations_of(stored)) == ({"degrees": 3}, {"a": "b"}, {})
    (listed,) = cluster.list(V1)
    assert listed["spec"] == {"value": 3}


def digests() -> Iterator[str]:
    for _ in range(2):
        cluster = SimulatedCluster(
            seed=5,
            traced=True,
            faults=parse_faults("webhook-slow 5..40 rate=0.5 seconds=1; webhook-down 8..12 rate=0.5"),
        )
        cluster.certificate_lives = CertificateLives(serving=30.0, authority=60.0, settle=2.0, overlap=5.0)
        cluster.manager(controllers=(PAINTER, writer()))
        for number in range(20):
            cluster.create(SECRETS, {"metadata": {"name": f"s{number}", "namespace": "default"}})
            cluster.run_for(5)
        assert cluster.trace is not None
        yield cluster.trace.digest


def writer() -> ControllerSpec:
    watches = (Watch(SECRETS, to=itself, namespaces=("default",)),)
    return ControllerSpec(name="writer", build=Writer, queues=(Queue(watches=watches),), reads=(CONFIGMAPS,))


def test_slow_webhook_delays_the_write_of_a_controller() -> None:
    cluster = SimulatedCluster(seed=5, faults=parse_faults("webhook-slow 5..40 rate=1 seconds=3 resource=/mutate/*"))
    cluster.manager(controllers=(PAINTER, writer()))
    cluster.run_for(10)
    before = len(cluster.list(CONFIGMAPS))
    cluster.create(SECRETS, {"metadata": {"name": "s", "namespace": "default"}})
    cluster.run_for(2.5)
    assert len(cluster.list(CONFIGMAPS)) == before
    cluster.run_for(2.5)
    assert len(cluster.list(CONFIGMAPS)) == before + 1
    assert cluster.network.injector is not None
    assert cluster.network.injector.struck[FaultKind.WEBHOOK_SLOW] == 1


def test_a_run_with_webhooks_and_rotations_replays_exactly() -> None:
    first, second = digests()
    assert first == second


def test_metrics_have_the_names_of_controller_runtime(cluster: SimulatedCluster) -> None:
    system = cluster.manager(controllers=(PAINTER,))
    cluster.run_for(10)
    cluster.create(CONFIGMAPS, configmap("a"))
    text = system.metrics_text()
    for line in (
        'controller_runtime_webhook_requests_total{code="200",webhook="/validate/validate.configmaps.core"} 1.0',
        'controller_runtime_webhook_latency_seconds_count{webhook="/validate/validate.configmaps.core"} 1.0',
        'controller_runtime_webhook_requests_in_flight{webhook="/validate/validate.configmaps.core"} 0.0',
        'kcm_webhook_results_total{result="allowed",webhook="/validate/validate.configmaps.core"} 1.0',
    ):
        assert line in text
    assert "kcm_webhook_certificate_expiration_timestamp_seconds 1.7" in text


def test_the_health_check_fails_until_webhooks_are_served(cluster: SimulatedCluster) -> None:
    system = cluster.manager(controllers=(PAINTER,))
    assert system.checks()["webhooks"]() == "not started"
    cluster.run_for(10)
    assert system.checks()["webhooks"]() is None
