"""Plugins that check permissions: owners and trust bundles; and external IPs, which are denied to all users.

Cases of kubernetes v1.36 plugin/pkg/admission/{gc,certificates/ctbattest,network/denyserviceexternalips}/*_test.go.
tests/e2e/test_access_side_by_side.py compares owners with kube-apiserver.
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.admission_plugins import DENY_EXTERNAL_IPS, OWNER_REFERENCES, WITHOUT_CONTROLLERS
from kcm.runtime.apiserver.registry.users import User
from tests.runtime.apiserver.conftest import Answer, Api

JANE = User("jane")
GROUP, RBAC = "rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"


def api_with(*plugins: str) -> Api:
    return Api(role_based=True, collect_garbage=False, plugins=WITHOUT_CONTROLLERS | {*plugins})


def give(api: Api, name: str, **rule: list[str]) -> None:
    api.send("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [{"apiGroups": [""], **rule}]})
    ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "User", "name": "jane", "apiGroup": GROUP}]
    body = {"metadata": {"name": name}, "roleRef": ref, "subjects": subjects}
    assert api.send("POST", f"{RBAC}/clusterrolebindings", body).status == 201


def owned(*, block: bool, kind: str = "Secret") -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": kind, "name": "s", "uid": "u", "blockOwnerDeletion": block}
    return {"metadata": {"name": "m", "ownerReferences": [owner]}}


def change(api: Api, body: Any) -> Answer:
    return api.send("PATCH", api.path("configmaps", "m"), body, type_=MERGE, user=JANE)


def test_setting_owners_needs_permission_to_delete_and_to_set_finalizers() -> None:
    api = api_with(OWNER_REFERENCES)
    path = api.path("configmaps")
    blocked = (
        'configmaps "m" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you '
        "can't set finalizers on: , <nil>"
    )
    assert api.send("POST", path, owned(block=True), user=JANE).message == blocked
    assert api.send("POST", path, owned(block=True, kind="None"), user=JANE).message == (
        'configmaps "m" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for '
        'APIVersion v1 Kind None: no matches for kind "None" in version "v1"'
    )
    assert api.send("POST", path, owned(block=False), user=JANE).status == 201
    assert change(api, {"data": {"a": "b"}}).status == 200
    assert change(api, owned(block=True)).message == (
        'configmaps "m" is forbidden: cannot set an ownerRef on a resource you can\'t delete: , <nil>'
    )
    give(api, "deletes", resources=["configmaps"], verbs=["delete"])
    assert change(api, owned(block=True)).message == blocked
    give(api, "finalizes", resources=["secrets/finalizers"], verbs=["update"])
    assert change(api, owned(block=True)).status == 200
    assert change(api, owned(block=True)).status == 200


def test_owners_need_no_permission_without_the_plugin() -> None:
    api = api_with()
    assert api.send("POST", api.path("configmaps"), owned(block=True), user=JANE).status == 201


def test_trust_bundle_needs_permission_to_attest() -> None:
    api = api_with()
    path = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
    bundle = {"metadata": {"name": "a.io:s:b"}, "spec": {"signerName": "a.io/s", "trustBundle": _certificate()}}
    refused = api.send("POST", path, bundle, user=JANE)
    assert refused.message == (
        'clustertrustbundles.certificates.k8s.io "a.io:s:b" is forbidden: user not permitted to attest for signerName '
        '"a.io/s"'
    )
    give(api, "attests", apiGroups=["certificates.k8s.io"], resources=["signers"], verbs=["attest"])
    assert api.send("POST", path, bundle, user=JANE).status == 201


def _certificate() -> str:
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def test_external_ips_may_be_kept_but_not_added() -> None:
    api = api_with(DENY_EXTERNAL_IPS)
    ports = {"ports": [{"port": 80}]}
    service = {"metadata": {"name": "s"}, "spec": {**ports, "externalIPs": ["203.0.113.1"]}}
    refused = api.create("services", service)
    assert refused.message == 'services "s" is forbidden: Use of external IPs is denied by admission control'
    assert api.create("services", {**service, "spec": ports}).status == 201
    assert api.patch("services", "s", {"spec": {"externalIPs": ["203.0.113.1"]}}).status == 403
    assert api.patch("services", "s", {"metadata": {"labels": {"a": "b"}}}).status == 200
