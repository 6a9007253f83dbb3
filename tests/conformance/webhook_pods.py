"""Webhooks of upstream's specs, run as processes for the pods on hollow nodes.

These pods have upstream's image agnhost. The program agnhost is started with the pod's arguments and the Secret that
the pod mounts. The pod's address is added to the loopback interface, and an annotation makes the server connect to it.
This needs a network namespace (clusters.enter_own_network).
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
from tests.e2e.programs import ending, spawn

AGNHOST = "agnhost"  # the program's name, beside e2e.test
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# agnhost expects the token in the mount path of pods, so that it gets a mount namespace.
IN_A_POD = (
    f'mount -t tmpfs tmpfs /run && mkdir -p {ACCOUNT} && cp "$1"/token "$1"/ca.crt {ACCOUNT} && shift && exec "$@"'
)
PORT = "--port="
MERGE = "application/merge-patch+json"
COMMANDS = ("webhook", "crd-conversion-webhook")
GLANCE = 0.3  # seconds between two lists of the pods

Object = dict[str, Any]


class Wanted(NamedTuple):
    """Webhook of a pod. secrets: (mount path, name of the Secret)."""

    namespace: str
    address: str
    arguments: tuple[str, ...]
    secrets: tuple[tuple[str, str], ...]

    @property
    def port(self) -> int:
        """Return the port in the arguments, by default agnhost's."""
        ports = (int(argument.removeprefix(PORT)) for argument in self.arguments if argument.startswith(PORT))
        return next(ports, 443)


def wanted_by(pod: Object) -> Wanted | None:
    """Return the webhook of a pod, or None if it has no webhook or no address yet."""
    address = (pod.get("status") or {}).get("podIP")
    volumes = pod["spec"].get("volumes") or ()
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    for container in pod["spec"]["containers"] if address else ():
        arguments = tuple(container.get("args") or ())
        if arguments[:1] and arguments[0] in COMMANDS:
            mounts = container.get("volumeMounts") or ()
            mounted = tuple(
                (mount["mountPath"], secrets[mount["name"]]) for mount in mounts if mount["name"] in secrets
            )
            return Wanted(pod["metadata"]["namespace"], address, arguments, mounted)
    return None


@contextmanager
def webhooks_running(kubeconfig: Path, program: Path, directory: Path) -> Iterator[None]:
    """Run the webhooks of pods until the end of the block. directory: for keys and logs."""
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
            pods = {pod["metadata"]["uid"]: pod for pod in api.get("/api/v1/pods")["items"] if not _terminating(pod)}
            for uid in running.keys() - pods.keys():  # first, since the next webhook listens on the same port
                running.pop(uid).close()
            for uid, pod in pods.items():
                wanted = wanted_by(pod)
                if wanted is not None and uid not in running:
                    place = directory / uid
                    place.mkdir(parents=True, exist_ok=True)
                    _write_account(api, place)
                    command = [str(program), *_with_keys(api, wanted, place)]
                    running[uid] = _started(wanted.address, command, api, place)
                    path = f"/api/v1/namespaces/{wanted.namespace}/pods/{pod['metadata']['name']}"
                    annotations = {WEBHOOK: f"{wanted.address}:{wanted.port}"}
                    api.request("PATCH", path, {"metadata": {"annotations": annotations}}, type=MERGE)
        except OSError:
            continue  # the server is starting, or has ended
    for webhook in running.values():
        webhook.close()


def _terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _with_keys(api: Api, wanted: Wanted, place: Path) -> list[str]:
    """Return the arguments with the paths of local copies of the mounted files."""
    # agnhost has no flag for verbosity.
    arguments = [argument for argument in wanted.arguments if not argument.startswith("-v=")]
    for mounted, secret in wanted.secrets:
        data = api.get(f"/api/v1/namespaces/{wanted.namespace}/secrets/{secret}")["data"]
        for name, value in data.items():
            (place / name).write_bytes(base64.b64decode(value))
        arguments = [argument.replace(mounted, str(place)) for argument in arguments]
    return arguments


def _write_account(api: Api, place: Path) -> None:
    cluster = yaml.safe_load(api.kubeconfig.read_text())["clusters"][0]["cluster"]
    data = cluster.get("certificate-authority-data")
    authority = base64.b64decode(data) if data else Path(cluster["certificate-authority"]).read_bytes()
    (place / "ca.crt").write_bytes(authority)
    (place / "token").write_text(api.token)


def _started(address: str, command: list[str], api: Api, place: Path) -> ExitStack:
    """Start a webhook; return what ends it."""
    server = urlsplit(api.url)
    environ = {"KUBERNETES_SERVICE_HOST": server.hostname or "", "KUBERNETES_SERVICE_PORT": str(server.port)}
    whole = ["unshare", "--mount", "sh", "-c", IN_A_POD, "sh", str(place), *command]
    with ExitStack() as stack:
        # kubemark gives all pods this address, so it is not removed before the network namespace ends.
        subprocess.run(["ip", "address", "replace", f"{address}/32", "dev", "lo"], check=True)
        stack.enter_context(ending(spawn(whole, place / "agnhost.log", environ={**os.environ, **environ})))
        return stack.pop_all()
