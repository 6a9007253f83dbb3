"""Clusters that specs run on.

- embedded: the embedded cluster of `bin/run-kcm`.
- gated: the same with feature gates that are off by default, for specs that need them.
- real: etcd, kube-apiserver, kube-scheduler and kubemark's nodes with kcm. For the controllers that kcm lacks,
  kube-controller-manager runs beside it.
- reference: the same with kube-controller-manager alone. A spec that fails there does not fail because of kcm.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kcm.actors.controllers.built_in import BUILT_IN
from tests.conformance.provisioner import provisioning
from tests.e2e.kubectl import Api
from tests.e2e.programs import Program, ending, free_port, managing, spawn, until
from tests.e2e.real_server import RealServer, real_server

NODES = 3
NEEDS_A_CLOUD = ("node-route-controller", "cloud-node-lifecycle-controller", "service-lb-controller")
GATES = ("DRAResourcePoolStatus", "GenericWorkload", "WorkloadWithJob", "MaxUnavailableStatefulSet")
READY_WITHIN = 180.0  # seconds; kubemark's kubelet needs half a minute
ADDRESS = "198.51.100.1"
APISERVER_FLAGS = (
    "--allow-privileged=true",
    f"--advertise-address={ADDRESS}",  # the endpoint of Service default/kubernetes may not be on loopback
    "--endpoint-reconciler-type=lease",
    "--enable-aggregator-routing=true",  # connect to the pods of webhooks: there is no kube-proxy for cluster IPs
)
# A kubelet's address is that of the interface with the default route, and may not be loopback.
OWN_NETWORK = " && ".join(
    f"ip {line}"
    for line in (
        "link set lo up",
        "link add kubemark0 type veth peer name kubemark1",
        f"address add {ADDRESS}/24 dev kubemark0",
        "link set kubemark0 up",
        "link set kubemark1 up",
        "route add default dev kubemark0",
    )
)
_KUBELET_ROOT = re.compile(r"Using (/\S*/hollow-kubelet\.\d+) as root dir")  # kubemark leaves it behind
INSIDE = "KCM_CONFORMANCE_NAMESPACE"  # set in the restarted process


@dataclass(frozen=True, slots=True)
class Cluster:
    """Running cluster. flags: flags of e2e.test. gated: see Suite."""

    kubeconfig: Path
    flags: Sequence[str] = ()
    gated: str = ""


@contextmanager
def embedded(directory: Path, _assets: Path) -> Iterator[Cluster]:
    with _embedded(directory) as kubeconfig:
        yield Cluster(kubeconfig)


@contextmanager
def gated(directory: Path, _assets: Path) -> Iterator[Cluster]:
    gates = ",".join(f"{gate}=true" for gate in GATES)
    with _embedded(directory, f"--feature-gates={gates}", "--embedded-runtime-config=api/all=true") as kubeconfig:
        yield Cluster(kubeconfig, gated="|".join(rf"\[FeatureGate:{gate}\]" for gate in GATES))


@contextmanager
def _embedded(directory: Path, *more: str) -> Iterator[Path]:
    flags = (f"--embedded-dir={directory / 'kcm'}", f"--hollow-nodes={NODES}", *more)
    kubeconfig = directory / "kcm" / "kubeconfig"
    with managing(directory / "kcm.log", *flags):
        _wait_for_nodes(kubeconfig, why=(directory / "kcm.log").read_text)
        yield kubeconfig


@contextmanager
def real(directory: Path, assets: Path) -> Iterator[Cluster]:
    """Run kcm, and kube-controller-manager for the controllers that kcm lacks."""
    ours = [spec.name for spec in BUILT_IN if spec.name not in NEEDS_A_CLOUD]
    with _control_plane(directory, assets) as server:
        names = f"--controllers={','.join(ours)}"
        flags = (f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", names, *_keys(server))
        others = ["*", *(f"-{spec.name}" for spec in BUILT_IN)]
        with (
            managing(directory / "kcm.log", *flags),
            _real_manager(server, others),
        ):
            _wait_for_nodes(server.kubeconfig, why=(directory / "kcm.log").read_text)
            yield Cluster(server.kubeconfig)


@contextmanager
def reference(directory: Path, assets: Path) -> Iterator[Cluster]:
    """Run kube-controller-manager with all its controllers."""
    with _control_plane(directory, assets) as server, _real_manager(server, ["*"]) as manager:
        _wait_for_nodes(server.kubeconfig, why=manager.text)
        yield Cluster(server.kubeconfig)


CLUSTERS: dict[str, Callable[[Path, Path], AbstractContextManager[Cluster]]] = {
    "embedded": embedded,
    "gated": gated,
    "real": real,
    "reference": reference,
}


def enter_own_network(arguments: Sequence[str]) -> None:
    """Restart this program in a network namespace, since kubemark and webhooks listen on all addresses.

    Returns only in the restarted program, which gets these arguments.
    """
    if os.environ.get(INSIDE):
        return
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        sys.exit("run-conformance: needs unshare and ip to make a network namespace")
    again = [*unshare, "sh", "-c", f'{OWN_NETWORK} && exec "$@"', "sh", sys.executable, "-m", "tests.conformance"]
    os.execvpe(unshare[0], [*again, *arguments], {**os.environ, INSIDE: "1"})


@contextmanager
def _control_plane(directory: Path, assets: Path) -> Iterator[RealServer]:
    with ExitStack() as stack:
        server = stack.enter_context(real_server(directory, assets, *APISERVER_FLAGS, disabled=()))
        stack.enter_context(provisioning(server.kubeconfig))
        stack.enter_context(_scheduler(server))
        for number in range(NODES):
            stack.enter_context(_kubemark(server, number))
        yield server


@contextmanager
def _scheduler(server: RealServer) -> Iterator[Program]:
    command = [
        str(server.binaries / "kube-scheduler"),
        f"--kubeconfig={server.kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
    ]
    with ending(spawn(command, server.directory / "kube-scheduler.log")) as program:
        yield program


@contextmanager
def _kubemark(server: RealServer, number: int) -> Iterator[Program]:
    command = [
        str(server.binaries / "kubemark"),
        "--morph=kubelet",
        f"--name=kubemark-{number}",
        f"--kubeconfig={server.kubeconfig}",
        f"--kubelet-port={free_port()}",
        f"--kubelet-read-only-port={free_port()}",
        "--use-host-image-service=false",
        f"--node-labels=topology.kubernetes.io/zone=zone-{number}",
        "--extended-resources=ephemeral-storage=100Gi",  # kubemark reports 0 otherwise
    ]
    program = spawn(command, server.directory / f"kubemark-{number}.log")
    try:
        with ending(program):
            yield program
    finally:
        for root in _KUBELET_ROOT.findall(program.text()):
            shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _real_manager(server: RealServer, controllers: Sequence[str]) -> Iterator[Program]:
    keys = server.directory
    command = [
        str(server.binaries / "kube-controller-manager"),
        f"--kubeconfig={server.kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
        f"--flex-volume-plugin-dir={keys / 'flex'}",
        *_keys(server),
        f"--controllers={','.join(controllers)}",
    ]
    with ending(spawn(command, keys / "kube-controller-manager.log")) as program:
        yield program


def _keys(server: RealServer) -> tuple[str, ...]:
    """Return the flags of both managers for the controllers of service accounts and certificates."""
    keys = server.directory
    return (
        f"--service-account-private-key-file={keys / 'sa.key'}",
        f"--root-ca-file={keys / 'apiserver.crt'}",
        f"--cluster-signing-cert-file={keys / 'apiserver.crt'}",
        f"--cluster-signing-key-file={keys / 'apiserver.key'}",
    )


def _wait_for_nodes(kubeconfig: Path, *, why: Callable[[], str]) -> None:
    api = Api(kubeconfig)

    def all_ready() -> bool:
        nodes = api.request("GET", "/api/v1/nodes")["items"]
        ready = [
            node
            for node in nodes
            if not node["spec"].get("taints")
            and ("Ready", "True")
            in {(found["type"], found["status"]) for found in node["status"].get("conditions", ())}
        ]
        return len(ready) == NODES

    until(all_ready, f"{NODES} nodes are ready", within=READY_WITHIN, why=why)
