"""Kinds of the release after 1.36."""

from __future__ import annotations

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
    assert with_later_kinds(served_kinds(), "1.35") == served_kinds()
    assert {kind.version for kind in LATER_KINDS["1.37"]} == {"v1"}


def test_objects_of_later_kinds_are_checked_and_explained(make_api: type[Api]) -> None:
    api = make_api(resources=with_later_kinds(served_kinds(), "1.37"))
    path = "/apis/certificates.k8s.io/v1/clustertrustbundles"
    made = api.send("POST", path, {"metadata": {"name": "roots"}, "spec": {"trustBundle": PEM}})
    assert (made.status, made.obj["apiVersion"]) == (201, "certificates.k8s.io/v1")
    assert api.send("POST", path, {"metadata": {"name": "x"}, "spec": {"trustBundle": 5}}).status == 400
    assert api.send("GET", f"{path}/roots").obj["kind"] == "ClusterTrustBundle"
