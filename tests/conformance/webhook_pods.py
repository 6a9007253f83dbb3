"""Runs the webhooks of upstream's specs, whose pods only seem to run on hollow nodes.

Each such pod has upstream's image agnhost. Its program is started with the pod's arguments and the Secret that the pod
mounts. The pod's address becomes one of the loopback interface, and an annotation of the pod leads the server to it,
which connects to no hollow pod otherwise.
For a network of our own alone (clusters.enter_own_network).
"""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from kcm.protocols.hollow_nodes import WEBHOOK
from tests.e2e.kubectl import Api
from tests.e2e.running import ending, spawn

AGNHOST = "agnhost"  # the program's name, beside e2e.test
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# It looks for the cluster where a pod's account is mounted: in a file system of its own, so that nobody else sees that.
IN_A_POD = (
    f'mount -t tmpfs tmpfs /run && mkdir -p {ACCOUNT} && cp "$1"/token "$1"/ca.crt {ACCOUNT} && shift && exec "$@"'
)
PORT = "--port="
MERGE = "application/merge-patch+json"
COMMANDS = ("webhook", "crd-conversion-webhook")
GLANCE = 0.3  # seconds between two looks at the pods

Object = dict[str, Any]


class Wanted(NamedTuple):
    """A webhook that is to run. secrets: of its namespace, by the path that each is mounted at."""

    namespace: str
    address: str
    arguments: tuple[str, ...]
    secrets: tuple[tuple[str, str], ...]

    @property
    def port(self) -> int:
        """Of the arguments; agnhost's own default without one."""
        return next((int(one.removeprefix(PORT)) for one in self.arguments if one.startswith(PORT)), 443)


def wanted_by(pod: Object) -> Wanted | None:
    """None for a pod that is not placed yet, or has no webhook."""
    address = (pod.get("status") or {}).get("podIP")
    secrets = {one["name"]: one["secret"]["secretName"] for one in pod["spec"].get("volumes") or () if "secret" in one}
    for container in pod["spec"]["containers"] if address else ():
        arguments = tuple(container.get("args") or ())
        if arguments[:1] and arguments[0] in COMMANDS:
            mounts = container.get("volumeMounts") or ()
            mounted = tuple((one["mountPath"], secrets[one["name"]]) for one in mounts if one["name"] in secrets)
            return Wanted(pod["metadata"]["namespace"], address, arguments, mounted)
    return None


@contextmanager
def webhooks_running(kubeconfig: Path, program: Path, directory: Path) -> Iterator[None]:
    """directory: where keys and logs go."""
    over = threading.Event()
    looking = threading.Thread(target=_run, args=(Api(kubeconfig), program, directory, over), name="webhooks")
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join(60.0)


def _run(api: Api, program: Path, directory: Path, over: threading.Event) -> None:
    running: dict[str, ExitStack] = {}  # by the pod's uid
    while not over.wait(GLANCE):
        try:
            pods = {pod["metadata"]["uid"]: pod for pod in api.get("/api/v1/pods")["items"]}
            for uid, pod in pods.items():
                wanted = wanted_by(pod)
                if wanted is not None and uid not in running:
                    place = directory / uid
                    place.mkdir(parents=True)
                    _write_account(api, place)
                    command = [str(program), *_with_keys(api, wanted, place)]
                    running[uid] = _started(wanted.address, command, api, place)
                    path = f"/api/v1/namespaces/{wanted.namespace}/pods/{pod['metadata']['name']}"
                    annotations = {WEBHOOK: f"{wanted.address}:{wanted.port}"}
                    api.request("PATCH", path, {"metadata": {"annotations": annotations}}, type=MERGE)
        except OSError:
            continue  # the server is starting, or has ended
        for uid in running.keys() - pods.keys():
            running.pop(uid).close()
    for one in running.values():
        one.close()


def _with_keys(api: Api, wanted: Wanted, place: Path) -> list[str]:
    """Its arguments, with paths of files that are here. Verbosity is not agnhost's own."""
    arguments = [one for one in wanted.arguments if not one.startswith("-v=")]
    for mounted, secret in wanted.secrets:
        data = api.get(f"/api/v1/namespaces/{wanted.namespace}/secrets/{secret}")["data"]
        for name, value in data.items():
            (place / name).write_bytes(base64.b64decode(value))
        arguments = [one.replace(mounted, str(place)) for one in arguments]
    return arguments


def _write_account(api: Api, place: Path) -> None:
    cluster = yaml.safe_load(api.kubeconfig.read_text())["clusters"][0]["cluster"]
    data = cluster.get("certificate-authority-data")
    authority = base64.b64decode(data) if data else Path(cluster["certificate-authority"]).read_bytes()
    (place / "ca.crt").write_bytes(authority)
    (place / "token").write_text(api.token)


def _started(address: str, command: list[str], api: Api, place: Path) -> ExitStack:
    """What ends it."""
    server = urlsplit(api.url)
    environ = {"KUBERNETES_SERVICE_HOST": server.hostname or "", "KUBERNETES_SERVICE_PORT": str(server.port)}
    whole = ["unshare", "--mount", "sh", "-c", IN_A_POD, "sh", str(place), *command]
    with ExitStack() as stack:
        _set_address("add", address)
        stack.callback(_set_address, "del", address)
        stack.enter_context(ending(spawn(whole, place / "agnhost.log", environ={**os.environ, **environ})))
        return stack.pop_all()


def _set_address(command: str, address: str) -> None:
    subprocess.run(["ip", "address", command, f"{address}/32", "dev", "lo"], check=True)
