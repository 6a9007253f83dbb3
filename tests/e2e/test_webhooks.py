"""Webhooks of the example operator, run with kcm.main, on the embedded and on a real kube-apiserver.

A validating, a mutating and a conversion webhook are called under load while the CA and the certificates are rotated.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
import urllib.error
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcm.runtime.x509.rotation import authorities_in
from tests.e2e.kubectl import Api
from tests.e2e.programs import ROOT, Program, ending, free_port, spawn, until
from tests.e2e.real_server import assets_or_skip, real_server

Object = dict[str, Any]
OPERATOR = ROOT / "examples" / "certificate_operator.py"
DEFINITION = ROOT / "examples" / "certificate-crd.yml"
V1, BETA = (f"/apis/example.com/{version}/namespaces/default/certificates" for version in ("v1", "v1beta1"))
SECRET = "/api/v1/namespaces/default/secrets/certificate-operator-webhook"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@contextmanager
def operator(log: Path, *flags: str) -> Iterator[Program]:
    command = [sys.executable, str(OPERATOR), "--secure-port=0", f"--webhook-port={free_port()}", "-v=1", *flags]
    with ending(spawn(command, log)) as program:
        yield program


def refused(api: Api, method: str, path: str, body: Object) -> tuple[int, Object]:
    """Return the status and the body of a request that must fail."""
    try:
        answer = api.request(method, path, body)
    except urllib.error.HTTPError as err:
        return err.code, json.load(err)
    raise AssertionError(f"{method} {path} was accepted: {answer}")


def certificate(name: str, version: str = "v1", **spec: Any) -> Object:
    head = {"apiVersion": f"example.com/{version}", "kind": "Certificate", "metadata": {"name": name}}
    return {**head, "spec": spec}


def await_webhooks(api: Api, program: Program) -> None:
    """Wait until the admission webhooks and the conversion are configured, and the API server calls them."""

    def is_called() -> bool:
        definition = api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/certificates.example.com")
        if (definition["spec"].get("conversion") or {}).get("strategy") != "Webhook":
            return False
        made = api.request("POST", f"{V1}?dryRun=All", certificate("probe", names=["probe.example.com"]))
        return bool(made["spec"].get("secretName"))

    def is_ready() -> bool:
        try:
            return is_called()
        except OSError:
            return False

    until(is_ready, "the webhooks are called", why=program.text)


def try_webhooks(api: Api, program: Program) -> None:
    """Try each kind of webhook once."""
    made = api.request("POST", V1, certificate("shop", names=["shop.example.com"]))
    assert made["spec"] == {"names": ["shop.example.com"], "days": 90, "secretName": "shop-tls"}
    path = "/api/v1/namespaces/default/secrets/shop-tls"

    def exists() -> bool:
        try:
            return bool(api.get(path)["data"]["tls.crt"])
        except OSError:
            return False

    until(exists, "the certificate is issued", why=program.text)
    status, failure = refused(api, "POST", V1, certificate("other", names=["shop.example.com"]))
    assert (status, failure["reason"]) == (422, "Invalid")
    assert failure["message"] == (
        'admission webhook "validate.certificates.example.com" denied the request: the name is taken: '
        "spec.names: shop.example.com belongs to default/shop"
    )
    assert failure["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": "shop.example.com belongs to default/shop", "field": "spec.names"}
    ]
    with api.open("POST", V1, certificate("long", names=["long.example.com"], days=300)) as response:
        assert "rejected by browsers" in response.headers["Warning"]
    old = api.request(
        "POST", BETA, certificate("old", "v1beta1", domain="a.example.com", moreDomains=["b.example.com"])
    )
    assert old["spec"] == {
        "domain": "a.example.com",
        "moreDomains": ["b.example.com"],
        "days": 90,
        "secretName": "old-tls",
    }
    assert api.get(f"{V1}/old")["spec"]["names"] == ["a.example.com", "b.example.com"]
    assert {item["metadata"]["name"] for item in api.get(BETA)["items"]} == {"shop", "long", "old"}


def authorities(api: Api) -> frozenset[bytes]:
    return authorities_in(base64.b64decode(api.get(SECRET)["data"]["ca.crt"]))


class Load:
    """Clients that create, read in the other version and delete Certificates, until they are stopped.

    pause: seconds that a client waits after each Certificate.
    """

    def __init__(self, api: Api, clients: int, *, pause: float) -> None:
        self._pause = pause
        self.done: Counter[str] = Counter()
        self.errors: list[str] = []
        self._api, self._stop = api, threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self, client: int) -> None:
        number = 0
        while not self._stop.wait(self._pause):
            number += 1
            name = f"load-{client}-{number}"
            beta = certificate(name, "v1beta1", domain=f"{name}.example.com")
            for method, path, body in (
                ("POST", BETA, beta),
                ("GET", f"{BETA}/{name}", None),
                ("DELETE", f"{V1}/{name}", None),
            ):
                try:
                    self._api.request(method, path, body)
                    self.done[method] += 1
                except urllib.error.HTTPError as err:
                    self.errors.append(f"{method} {path}: {err.code} {err.read().decode(errors='replace')}")
                except OSError as err:
                    self.errors.append(f"{method} {path}: {err!r}")


def rotate_under_load(
    api: Api, program: Program, *, clients: int, rotations: int, within: float, pause: float = 0.0
) -> Load:
    """Keep the webhooks under load until the CA was replaced this often. Returns what the clients did."""
    seen, serving = authorities(api), {api.get(SECRET)["data"]["tls.crt"]}

    def is_rotated() -> bool:
        nonlocal seen
        now = authorities(api)
        seen |= now
        serving.add(api.get(SECRET)["data"]["tls.crt"])
        return len(seen) > rotations and len(now) == 1

    with Load(api, clients, pause=pause) as load:
        until(is_rotated, f"{rotations} CAs replaced", within=within, why=program.text)
    assert load.errors == []
    assert len(serving) > rotations
    return load


def test_webhooks_of_a_program_on_the_embedded_cluster(tmp_path: Path) -> None:
    lives = (
        "--webhook-certificate-lifetime=18s",
        "--webhook-authority-lifetime=18s",
        "--webhook-authority-settle=500ms",
        "--webhook-authority-overlap=1s",
    )
    directory = tmp_path / "kcm"
    flags = (f"--embedded-dir={directory}", "--embedded-port=0", "--hollow-nodes=0", f"--apply={DEFINITION}")
    with operator(tmp_path / "log", *flags, *lives) as program:
        until((directory / "kubeconfig").exists, "there is a kubeconfig", why=program.text)
        api = Api(directory / "kubeconfig")
        until(api.alive, "the API server serves", why=program.text)
        await_webhooks(api, program)
        try_webhooks(api, program)
        load = rotate_under_load(api, program, clients=1, rotations=1, within=45, pause=0.05)
        assert min(load.done.values()) > 3
        assert program.terminate() == 0


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(280)
def test_webhooks_of_a_program_on_a_real_kube_apiserver(tmp_path: Path) -> None:
    lives = (
        "--webhook-certificate-lifetime=30s",
        "--webhook-authority-lifetime=30s",
        "--webhook-authority-settle=2s",
        "--webhook-authority-overlap=3s",
    )
    with real_server(tmp_path, assets_or_skip()) as server:
        api = Api(server.kubeconfig)
        api.request(
            "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(DEFINITION.read_text())
        )
        with operator(tmp_path / "log", f"--kubeconfig={server.kubeconfig}", *lives) as program:
            await_webhooks(api, program)
            try_webhooks(api, program)
            load = rotate_under_load(api, program, clients=3, rotations=3, within=200)
            print(f"requests: {dict(load.done)}")
            assert sum(load.done.values()) > 100
            assert program.terminate() == 0
