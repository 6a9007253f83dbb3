"""Access to a cluster: with kubectl, as users have it, and with plain requests, which are faster."""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.programs import GLANCE, PATIENCE, until

Object = dict[str, Any]
JSON = "application/json"


@dataclass(frozen=True)
class Api:
    """Client for the server of a kubeconfig, with its token."""

    kubeconfig: Path

    @cached_property
    def _config(self) -> tuple[str, str, ssl.SSLContext | None]:
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        if not cluster["server"].startswith("https:"):
            return cluster["server"], user["token"], None
        authority = cluster.get("certificate-authority-data")
        context = ssl.create_default_context(
            cafile=cluster.get("certificate-authority"),
            cadata=base64.b64decode(authority).decode() if authority else None,
        )
        return cluster["server"], user["token"], context

    @property
    def url(self) -> str:
        return self._config[0]

    @property
    def token(self) -> str:
        return self._config[1]

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self._config[2]

    def open(
        self, method: str, path: str, body: Object | None = None, *, timeout: float = 30.0, type: str = JSON
    ) -> Any:
        url, token, context = self._config
        headers = {"Authorization": f"Bearer {token}", "Content-Type": type}
        data = json.dumps(body, separators=(",", ":")).encode() if body is not None else None  # as client-go
        request = urllib.request.Request(f"{url}{path}", data, headers, method=method)
        try:
            return urllib.request.urlopen(request, timeout=timeout, context=context)
        except urllib.error.HTTPError as err:  # read at once, as few callers close it
            with err:
                text = io.BytesIO(err.read())
            raise urllib.error.HTTPError(err.url, err.code, err.reason, err.headers, text) from None

    def request(self, method: str, path: str, body: Object | None = None, *, type: str = JSON) -> Object:
        """Return the response. Raises urllib.error.HTTPError, or another OSError if the server cannot be reached."""
        with self.open(method, path, body, type=type) as response:
            answer: Object = json.load(response)
            return answer

    def get(self, path: str) -> Object:
        return self.request("GET", path)

    def alive(self) -> bool:
        try:
            return bool(self.get("/version"))
        except OSError:
            return False


def brief() -> dict[str, str]:
    """Return the environment for kubectl without Go's garbage collector: the command ends before it would pay."""
    return {**os.environ, "GOGC": "off"}


@dataclass(frozen=True)
class Kubectl:
    """Command kubectl for one namespace."""

    api: Api
    namespace: str

    def run(self, *arguments: str, given: str = "", timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        config = self.api.kubeconfig
        flags = (f"--kubeconfig={config}", f"--cache-dir={config.parent / 'cache'}", f"--namespace={self.namespace}")
        command = ["kubectl", *flags, *arguments]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=timeout, check=False, env=brief()
        )

    def __call__(self, *arguments: str, given: str = "") -> str:
        """Run kubectl and return its output. Fails the test if kubectl fails."""
        done = self.run(*arguments, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def apply(self, *manifests: Object) -> None:
        self("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))

    # The following methods use plain requests.

    def path(self, resource: str, name: str = "") -> str:
        """Return the path of a resource, such as "pods" or "apps/v1/deployments", or of an object."""
        version, _, plural = resource.rpartition("/")
        root = f"/apis/{version}" if version else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}{'/' if name else ''}{name}"

    def items(self, resource: str, selector: str = "") -> list[Object]:
        query = f"?labelSelector={selector.replace('=', '%3D')}" if selector else ""
        items: list[Object] = self.api.get(self.path(resource) + query)["items"]
        return items

    def get(self, resource: str, name: str) -> Object:
        return self.api.get(self.path(resource, name))

    def ready_pods(self, selector: str = "") -> list[Object]:
        """Return the pods that are ready and not being deleted, oldest first."""
        pods = [pod for pod in self.items("pods", selector) if is_ready(pod)]
        return sorted(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], name_of(pod)))

    def until_pods(self, ready: int, selector: str = "", *, image: str = "") -> list[Object]:
        """Wait until exactly this number of pods exists, all of them ready, not being deleted and of this image."""

        def settled() -> list[Object] | None:
            pods = self.ready_pods(selector)
            good = [pod for pod in pods if not image or pod["spec"]["containers"][0]["image"] == image]
            return good if len(good) == len(self.items("pods", selector)) == ready else None

        if ready == 0:
            until(lambda: not self.items("pods", selector), "no pods", why=self.state)
            return []
        return until(settled, f"{ready} ready pods {selector} {image}", why=self.state)

    def until_complete(self, deployment: str) -> Object:
        """Wait until the rollout is complete according to the Deployment's status."""

        def complete() -> Object | None:
            seen = self.get("apps/v1/deployments", deployment)
            status, wanted = seen.get("status", {}), seen["spec"]["replicas"]
            counts = {status.get(field, 0) for field in ("replicas", "updatedReplicas", "availableReplicas")}
            observed = status.get("observedGeneration") == seen["metadata"]["generation"]
            return seen if observed and counts == {wanted} else None

        return until(complete, f"{deployment} is rolled out", why=self.state)

    def state(self) -> str:
        """Return all workloads and events, for the message of a failed test."""
        return self.run("get", "all,events", "-o", "wide").stdout


def name_of(obj: Object) -> str:
    name: str = obj["metadata"]["name"]
    return name


def uid_of(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def is_ready(pod: Object) -> bool:
    conditions = {condition["type"]: condition["status"] for condition in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


@dataclass
class PodHistory:
    """Pods that existed in a namespace while it was watched. created: by uid."""

    kubectl: Kubectl
    created: dict[str, Object] = field(default_factory=dict)
    _version: str = ""

    def images(self) -> list[str]:
        """Return the image of each pod that was created."""
        return sorted(pod["spec"]["containers"][0]["image"] for pod in [*self.created.values()])

    def follow(self) -> None:
        """Watch for a second. Raises OSError or http.client.HTTPException while the server is away."""
        if self._version:
            self._watch()
        else:
            self._list()

    def _list(self) -> None:
        pods = self.kubectl.api.get(self.kubectl.path("pods"))
        self._version = pods["metadata"]["resourceVersion"]
        for pod in pods["items"]:
            self.created.setdefault(uid_of(pod), pod)

    def _watch(self) -> None:
        query = f"?watch=true&resourceVersion={self._version}&timeoutSeconds=1"
        with self.kubectl.api.open("GET", self.kubectl.path("pods") + query) as response:
            for line in response:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    self._version = ""
                    return
                self._version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self.created.setdefault(uid_of(event["object"]), event["object"])


@contextmanager
def pod_history(kubectl: Kubectl) -> Iterator[PodHistory]:
    """Watch the pods of the namespace until the end of the block, with retries while the server is away."""
    history, ended = PodHistory(kubectl), threading.Event()
    history.follow()

    def follow() -> None:
        while not ended.is_set():
            try:
                history.follow()
            except (OSError, ValueError, http.client.HTTPException):
                ended.wait(GLANCE)

    thread = threading.Thread(target=follow, name="pod history")
    thread.start()
    try:
        yield history
    finally:
        ended.set()
        thread.join()
