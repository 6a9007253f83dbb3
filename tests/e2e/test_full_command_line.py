"""The articles' full command line starts all controllers that it names, on the embedded cluster and a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.reconciliation.specs import switched_on
from tests.e2e.bootstrap_tokens import INFO, KUBECONFIG, Tokens
from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.programs import Manager, ending, hollow_nodes, run_kcm, until
from tests.e2e.real_server import assets_or_skip, real_server, write_keys

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"


def full_command_line(keys: Path) -> tuple[str, ...]:
    """Return the command line of a static pod of kubeadm, for this server. keys: directory of write_keys."""
    return (
        "--address=127.0.0.1",
        f"--cluster-signing-cert-file={keys / 'apiserver.crt'}",
        f"--cluster-signing-key-file={keys / 'apiserver.key'}",
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--leader-elect=true",
        f"--root-ca-file={keys / 'apiserver.crt'}",
        f"--service-account-private-key-file={keys / 'sa.key'}",
        "--use-service-account-credentials=true",
    )


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def managed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Manager, Kubectl, tuple[str, ...]]]:
    """Ours with that command line, a cluster, and the flags."""
    keys = tmp_path / "keys"
    keys.mkdir()
    write_keys(keys)
    flags = full_command_line(keys)
    if request.param == "embedded":
        manager = run_kcm(tmp_path / "kcm.log", f"--embedded-dir={tmp_path / 'kcm'}", *flags)
        with ending(manager.program):
            yield manager, Kubectl(Api(tmp_path / "kcm" / "kubeconfig"), "default"), flags
        return
    assets = assets_or_skip()
    (tmp_path / "real").mkdir()
    with (
        real_server(tmp_path / "real", assets, disabled=("TaintNodesByCondition",)) as server,
        hollow_nodes(server.kubeconfig, tmp_path / "hollow.log"),
    ):
        manager = run_kcm(tmp_path / "kcm.log", f"--kubeconfig={server.kubeconfig}", *flags)
        with ending(manager.program):
            yield manager, Kubectl(Api(server.kubeconfig), "default"), flags


def test_the_full_command_line_starts_all_controllers(
    managed: tuple[Manager, Kubectl, tuple[str, ...]],
) -> None:
    manager, kubectl, flags = managed
    options = read_options(flags)
    wanted = {spec.name for spec in switched_on(BUILT_IN, options) if spec.enabled_if(options)}
    assert wanted >= {"bootstrap-signer-controller", "token-cleaner-controller"}  # which are off by default

    def ready() -> bool:
        assert manager.program.running, manager.program.text()
        started = set(re.findall(r'"Caches are synced" controller="([\w-]+)"', manager.program.text()))
        return started >= wanted and manager.healthy()

    until(ready, f"{len(wanted)} controllers work", why=manager.program.text)
    holder: str = kubectl.api.get(LEASE)["spec"]["holderIdentity"]
    assert holder, "it leads"
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    kubectl.until_complete("web")
    kubectl("expose", "deployment", "web", "--port=80")
    until(lambda: _addresses(kubectl) == 2, "the Service finds the pods", why=kubectl.state)
    kubectl("delete", "deployment", "web")
    kubectl.until_pods(0)
    tokens = Tokens(kubectl.api)
    tokens.public("create", "configmap", INFO, f"--from-literal=kubeconfig={KUBECONFIG}")
    tokens.create("abcdef.0123456789abcdef")
    tokens.create("badly1.0123456789abcdef", expiration="tomorrow")
    until(lambda: tokens.signers() == {"abcdef"}, "cluster-info is signed", why=manager.program.text)
    until(lambda: tokens.there() == {"bootstrap-token-abcdef"}, "who has expired is gone", why=manager.program.text)
    page = manager.get("/healthz?verbose")[1]
    assert {name for name in wanted if f"[+]{name} ok\n" not in page} == set()
    errors = re.findall(r"^E\d{4} .*$", manager.program.text(), re.MULTILINE)
    assert errors == []


def _addresses(kubectl: Kubectl) -> int:
    slices = kubectl.items("discovery.k8s.io/v1/endpointslices", "kubernetes.io/service-name=web")
    return sum(
        bool(endpoint["conditions"].get("ready")) for slice_ in slices for endpoint in slice_.get("endpoints") or ()
    )
