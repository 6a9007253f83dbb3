"""Accounts, tokens and certificates: the real kube-controller-manager and ours, one after the other on one
kube-apiserver, with the same key and the same authority. The resulting objects and the claims in tokens must be equal.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import ending, free_port, run_kcm, spawn, until
from tests.e2e.real_server import RealServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

OURS = (
    "serviceaccount-controller,root-ca-certificate-publisher-controller,legacy-serviceaccount-token-cleaner-controller"
)
UID, NAME = "kubernetes.io/service-account.uid", "kubernetes.io/service-account.name"
TYPE = "kubernetes.io/service-account-token"


def flags(server: RealServer) -> tuple[str, ...]:
    return (
        f"--kubeconfig={server.kubeconfig}",
        "--leader-elect=false",
        f"--controllers={OURS}",
        f"--service-account-private-key-file={server.directory / 'sa.key'}",
        f"--root-ca-file={server.directory / 'apiserver.crt'}",
    )


@contextmanager
def real_one(server: RealServer) -> Iterator[Any]:
    command = [str(server.binaries / "kube-controller-manager"), *flags(server)]
    command += ["--bind-address=127.0.0.1", f"--secure-port={free_port()}"]
    command += [f"--flex-volume-plugin-dir={server.directory / 'flex'}"]
    with ending(spawn(command, server.directory / "accounts-real.log")) as program:
        yield program


def account_secret(name: str, account: str, **data: str) -> dict[str, Any]:
    meta = {"name": name, "annotations": {NAME: account}}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "type": TYPE, "metadata": meta, "data": encoded}


def account(name: str, *secrets: str) -> dict[str, Any]:
    listed = [{"name": secret} for secret in secrets]
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, "secrets": listed}


def steps(kubectl: Kubectl) -> None:
    def there(resource: str) -> set[str]:
        return {item["metadata"]["name"] for item in kubectl.items(resource)}

    def data(name: str) -> dict[str, str]:
        found: dict[str, str] = kubectl.get("secrets", name).get("data") or {}
        return found

    until(lambda: "default" in there("serviceaccounts") and "kube-root-ca.crt" in there("configmaps"), "both are there")
    kubectl.apply(account("builder", "listed", "other"), account("gone"))
    kubectl.apply(
        account_secret("plain", "builder"),
        account_secret("custom", "builder", namespace="mine"),
        account_secret("falsified", "builder", **{"ca.crt": "x"}),
        account_secret("listed", "builder"),
        account_secret("of-gone", "gone"),
        account_secret("of-nobody", "nobody"),
    )
    until(lambda: all("token" in data(name) for name in ("plain", "custom", "falsified", "listed")), "they are filled")
    until(lambda: "of-nobody" not in there("secrets"), "whose account never was is gone")
    kubectl("delete", "serviceaccount", "gone")
    until(lambda: "of-gone" not in there("secrets"), "whose account is gone is gone")
    kubectl("delete", "secret", "listed")
    until(lambda: len(kubectl.get("serviceaccounts", "builder")["secrets"]) == 1, "it is listed no more")
    kubectl("patch", "configmap", "kube-root-ca.crt", "--patch", json.dumps({"data": {"ca.crt": "x", "more": "y"}}))
    until(lambda: set(kubectl.get("configmaps", "kube-root-ca.crt")["data"]) == {"ca.crt"}, "it is restored")
    kubectl("delete", "serviceaccount", "default")
    until(lambda: "default" in there("serviceaccounts"), "it is back")


def plain(kubectl: Kubectl, value: Any) -> Any:
    """Return the object without uids, times, versions and the name of the namespace."""
    accounts = {account["metadata"]["uid"]: account["metadata"]["name"] for account in kubectl.items("serviceaccounts")}
    if isinstance(value, dict):
        dropped = ("uid", "resourceVersion", "creationTimestamp", "managedFields")
        return {key: plain(kubectl, child) for key, child in value.items() if key not in dropped}
    if isinstance(value, list):
        return [plain(kubectl, child) for child in value]
    if isinstance(value, str):
        for uid, name in accounts.items():
            value = value.replace(uid, f"<uid of {name}>")
        return value.replace(kubectl.namespace, "<namespace>")
    return value


def left(kubectl: Kubectl) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for resource in ("serviceaccounts", "configmaps", "secrets"):
        for obj in kubectl.items(resource):
            obj["metadata"].get("annotations", {}).pop("kubectl.kubernetes.io/last-applied-configuration", None)
            for key, value in obj.get("data", {}).items() if resource == "secrets" else ():
                text = base64.b64decode(value).decode()
                obj["data"][key] = claims(text) if key == "token" else text
            found[f"{resource} {obj['metadata']['name']}"] = plain(kubectl, obj)
    found["events"] = plain(kubectl, [event["message"] for event in kubectl.items("events")])
    return found


def claims(token: str) -> list[Any]:
    """Head and claims as they stand, field by field in their order, and how long the signature is."""
    head, body, signature = token.split(".")
    parts = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode() for part in (head, body)]
    return [*parts, len(signature)]


def test_both_leave_the_same_behind(real: RealServer) -> None:
    theirs, ours = in_namespace(real.kubeconfig, "side-a"), in_namespace(real.kubeconfig, "side-b")
    with real_one(real):
        steps(theirs)
        before = left(theirs)
    for name in ("default", "builder"):
        ours.run("delete", "serviceaccount", name)
    with managing_ours(real):
        steps(ours)
        assert left(theirs) == before, "ours rewrites what the real one has left"
        after = left(ours)
    assert after == before


@contextmanager
def managing_ours(server: RealServer) -> Iterator[Any]:
    manager = run_kcm(server.directory / "accounts-ours.log", *flags(server))
    with ending(manager.program):
        until(manager.healthy, "it works", why=manager.program.text)
        yield manager
