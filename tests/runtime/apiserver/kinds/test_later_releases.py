"""Kinds of the release after 1.36."""

from __future__ import annotations

import json

import pytest

from kcm.runtime.apiserver.kinds.later_releases import LATER_KINDS, with_later_kinds
from kcm.runtime.apiserver.kinds.runtime_config import served_kinds
from tests.runtime.apiserver.conftest import Api

PEM = """-----BEGIN CERTIFICATE-----
MIIBJTCBzKADAgECAgEBMAoGCCqGSM49BAMCMBExDzANBgNVBAMMBmJlZm9yZTAg
Fw0yNjAxMDEwMDAwMDBaGA8yMTI2MDEwMTAwMDAwMFowETEPMA0GA1UEAwwGYmVm
b3JlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEmzwd/AV1PUWoOZ3UyT26ST7u
8DTUL0Dxyfx3OTlXSPJJc//F/6ynWzyfgstefWMKhZ3UlPtq3gwkFCWgfxQSSaMT
MBEwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiA/yF2lISQHhpiU
dAU5GpWSQweD8IBcX5jPsWLGLfF1/QIhALSKU+sWrcKmaM1JHdAmx5aG2ifSoH4y
OxEj+/67ckkp
-----END CERTIFICATE-----
"""


def test_later_kinds_replace_other_versions_of_their_resource() -> None:
    kinds = with_later_kinds(served_kinds(("api/beta",)), "1.37")
    found = [kind.version for kind in kinds if kind.plural == "clustertrustbundles"]
    assert found == ["v1"]
    groups = list(dict.fromkeys(kind.group for kind in kinds))
    assert groups[:7] == list(dict.fromkeys(kind.group for kind in served_kinds()))[:7]
    assert with_later_kinds(served_kinds(), "1.35") == served_kinds()
    assert {kind.version for kind in LATER_KINDS["1.37"] if kind.group != "autoscaling"} == {"v1"}


def test_objects_of_later_kinds_are_checked_and_explained(make_api: type[Api]) -> None:
    api = make_api(resources=with_later_kinds(served_kinds(), "1.37"))
    path = "/apis/certificates.k8s.io/v1/clustertrustbundles"
    made = api.send("POST", path, {"metadata": {"name": "roots"}, "spec": {"trustBundle": PEM}})
    assert (made.status, made.obj["apiVersion"]) == (201, "certificates.k8s.io/v1")
    assert api.send("POST", path, {"metadata": {"name": "x"}, "spec": {"trustBundle": 5}}).status == 400
    assert api.send("GET", f"{path}/roots").obj["kind"] == "ClusterTrustBundle"


@pytest.mark.parametrize(("version", "given"), [("v2", 0), ("v1", 0), ("v2", -1)])
def test_autoscalers_may_scale_to_zero(make_api: type[Api], version: str, given: int) -> None:
    api = make_api(resources=with_later_kinds(served_kinds(), "1.37"))
    path = f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers"
    name = "autoscaling.alpha.kubernetes.io/metrics"
    source = {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "5"}}
    metrics = [{"type": "External", "external": source}]
    old = json.dumps([{"type": "External", "external": {"metricName": "queue", "targetValue": "5"}}])
    meta = {"name": "a"} if version == "v2" else {"name": "a", "annotations": {name: old}}
    spec = {"scaleTargetRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "a"}, "maxReplicas": 3}
    more = {"metrics": metrics} if version == "v2" else {}
    made = api.send("POST", path, {"metadata": meta, "spec": {**spec, **more, "minReplicas": 1}})
    assert made.status == 201
    changed = api.send("PATCH", f"{path}/a", {"spec": {"minReplicas": given}}, type_="application/merge-patch+json")
    assert changed.status == (200 if given == 0 else 422)
    if given:
        assert "spec.minReplicas: Invalid value: -1: must be greater than or equal to 0" in changed.obj["message"]
