"""Trust bundles, and tokens that old releases made: the real kube-controller-manager and ours, each on a kube-apiserver
of its own in the same state. What they leave behind must be the same.
"""

from __future__ import annotations

import base64
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kcm.runtime.simulation.keys import authority_pair
from tests.e2e.kubectl import Api
from tests.e2e.programs import ending, free_port, spawn, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

GATE = "--feature-gates=ClusterTrustBundle=true"
SERVED = (GATE, "--runtime-config=certificates.k8s.io/v1beta1=true")
CONTROLLERS = (
    "legacy-serviceaccount-token-cleaner-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
)
NAMESPACE = "/api/v1/namespaces/kube-system"
TRACKING = f"{NAMESPACE}/configmaps/kube-apiserver-legacy-service-account-token-tracking"
BUNDLES = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
SIGNER, PREFIX = "kubernetes.io/kube-apiserver-serving", "kubernetes.io:kube-apiserver-serving:"
INVALID, USED = "kubernetes.io/legacy-token-invalid-since", "kubernetes.io/legacy-token-last-used"
OLD, FAR = "2020-01-01", "2999-01-01"
# Token Secrets, by their labels; the last of them is not listed by the account.
SECRETS: dict[str, dict[str, str]] = {
    "unused": {},
    "used-long-ago": {USED: OLD},
    "used-later": {USED: FAR},
    "marked": {INVALID: OLD},
    "marked-and-used-later": {INVALID: OLD, USED: FAR},
    "marked-badly": {INVALID: "sometime"},
    "used-badly": {USED: "sometime"},
    "mounted": {},
    "made-by-hand": {INVALID: OLD},
}


def is_there(api: Api, path: str) -> bool:
    try:
        return bool(api.get(path))
    except OSError:
        return False


def prepare(api: Api) -> None:
    until(lambda: is_there(api, TRACKING), "the server tracks tokens")
    api.request("PUT", TRACKING, {**api.get(TRACKING), "data": {"since": OLD}})
    listed = [{"name": name} for name in SECRETS if name != "made-by-hand"]
    account = api.request("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "old"}, "secrets": listed})
    uid = account["metadata"]["uid"]
    annotations = {"kubernetes.io/service-account.name": "old", "kubernetes.io/service-account.uid": uid}
    data = {"token": base64.b64encode(b"t").decode()}
    for name, labels in SECRETS.items():
        meta = {"name": name, "annotations": annotations, "labels": labels}
        body = {"type": "kubernetes.io/service-account-token", "metadata": meta, "data": data}
        api.request("POST", f"{NAMESPACE}/secrets", body)
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "nginx"}],
        "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}],
    }
    api.request("POST", f"{NAMESPACE}/pods", {"metadata": {"name": "mounts"}, "spec": spec})
    pem = authority_pair("trusted", begin=0.0, end=4e9).certificate.decode()
    for name, signer in ((f"{PREFIX}old", SIGNER), ("example.com:s:other", "example.com/s")):
        bundle = {"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": pem}}
        api.request("POST", BUNDLES, bundle)


def published(api: Api) -> list[str]:
    """Names of the bundles of the API server's signer."""
    names = [bundle["metadata"]["name"] for bundle in api.get(BUNDLES)["items"]]
    return [name for name in names if name.startswith(PREFIX)]


def work(api: Api, authority: str) -> dict[str, Any]:
    until(lambda: published(api) not in ([], [f"{PREFIX}old"]) and f"{PREFIX}old" not in published(api), "published")
    [name] = published(api)
    api.request("DELETE", f"{BUNDLES}/{name}")
    until(lambda: published(api) == [name], "it is back")
    changed = api.get(f"{BUNDLES}/{name}")
    changed["spec"]["trustBundle"] = authority_pair("false", begin=0.0, end=4e9).certificate.decode()
    api.request("PUT", f"{BUNDLES}/{name}", changed)
    until(lambda: api.get(f"{BUNDLES}/{name}")["spec"]["trustBundle"] == authority, "it is restored")
    until(lambda: not is_there(api, f"{NAMESPACE}/secrets/marked"), "what was marked long ago is gone")
    until(lambda: INVALID in (api.get(f"{NAMESPACE}/secrets/unused")["metadata"].get("labels") or {}), "it is marked")
    secrets = api.get(f"{NAMESPACE}/secrets")["items"]
    return {
        "bundles": {bundle["metadata"]["name"]: bundle["spec"]["signerName"] for bundle in api.get(BUNDLES)["items"]},
        "secrets": {secret["metadata"]["name"]: secret["metadata"].get("labels") for secret in secrets},
    }


def command(server: RealServer, who: str) -> list[str]:
    flags = [
        f"--kubeconfig={server.kubeconfig}",
        "--leader-elect=false",
        f"--secure-port={free_port()}",
        "--bind-address=127.0.0.1",
        f"--controllers={','.join(CONTROLLERS)}",
        f"--root-ca-file={server.directory / 'authority.crt'}",
        "--legacy-service-account-token-clean-up-period=1ms",
        GATE,
    ]
    if who == "ours":
        return [sys.executable, "-m", "kcm.actors.command", *flags]
    return [str(server.binaries / "kube-controller-manager"), *flags]


def test_both_leave_the_same_behind(tmp_path: Path) -> None:
    assets = assets_or_skip()
    found: dict[str, dict[str, Any]] = {}
    now = time.time()
    authority = authority_pair("authority", begin=float(int(now)) - 3600.0, end=float(int(now)) + 86400.0).certificate
    for who in ("real", "ours"):
        directory = tmp_path / who
        directory.mkdir()
        with real_server(directory, assets, *SERVED) as server:
            (directory / "authority.crt").write_bytes(authority)
            api = Api(server.kubeconfig)
            prepare(api)
            with ending(spawn(command(server, who), directory / "manager.log")):
                found[who] = work(api, authority.decode())
    assert found["ours"] == found["real"]
    left = {name for name in SECRETS if name in found["real"]["secrets"]}
    assert left == set(SECRETS) - {"marked"}
