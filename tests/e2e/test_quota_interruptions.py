"""Eight creators at a quota, while managers and servers are killed: it is never exceeded, and right in the end."""

from __future__ import annotations

import http.client
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.programs import GLANCE, Manager, ending, free_port, run_kcm, until, until_working
from tests.e2e.real_server import RealServer

pytestmark = [pytest.mark.slow]

CREATORS, MOST, KILLS = 8, 10, 3
HARD = {"count/secrets": str(MOST), "pods": str(MOST), "requests.cpu": "500m"}
RESOURCES = ("secrets", "pods")
CONTROLLER = "resourcequota-controller"
NOT_SENT, NO_ANSWER, OK = -1, 0, 200


def body(resource: str, name: str) -> Object:
    meta: Object = {"metadata": {"name": name}}
    if resource == "secrets":
        return meta
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "50m"}}}
    # The pod is never scheduled, so that it is deleted at once.
    return {**meta, "spec": {"nodeSelector": {"kubernetes.io/os": "none"}, "containers": [container]}}


@dataclass
class Crowd:
    """Clients that create as many objects as the quota allows, and delete some of them again."""

    kubectl: Kubectl
    most: dict[str, int] = field(default_factory=dict)  # largest number of objects at a time, by resource
    created: Counter[str] = field(default_factory=Counter)  # number of creations, by resource
    refused: int = 0  # number of rejected creations
    _turns: Iterator[int] = field(default_factory=count)
    _kept: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))  # paths, by creator

    @contextmanager
    def at_work(self) -> Iterator[None]:
        ended = threading.Event()
        work: list[Callable[[threading.Event, int], None]] = [self._create] * CREATORS + [self._look]
        threads = [threading.Thread(target=target, args=(ended, number)) for number, target in enumerate(work)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()

    def _create(self, ended: threading.Event, number: int) -> None:
        """Create an object; if it is refused, delete an earlier one."""
        mine = self._kept[number]
        for turn in self._turns:
            if ended.is_set():
                return
            resource = RESOURCES[turn % 2]
            name = f"{resource}-{number}-{turn}"
            status = self._done("POST", self.kubectl.path(resource), body(resource, name))
            self.created[resource] += status == OK
            if status in (OK, NO_ANSWER):
                mine.append(self.kubectl.path(resource, name))
            elif status == NOT_SENT:
                ended.wait(GLANCE)
            elif status == 403 and mine and self._done("DELETE", mine[0]) in (OK, 404):
                mine.pop(0)

    def _done(self, method: str, path: str, given: Object | None = None) -> int:
        """Return the HTTP status, NOT_SENT or NO_ANSWER. OK stands for all successes."""
        try:
            self.kubectl.api.request(method, path, given)
        except HTTPError as err:
            with err:
                self.refused += err.code == 403
            return err.code
        except URLError as err:
            return NOT_SENT if isinstance(err.reason, ConnectionRefusedError) else NO_ANSWER
        except (OSError, ValueError, http.client.HTTPException):
            return NO_ANSWER
        return OK

    def _look(self, ended: threading.Event, _number: int) -> None:
        """Count the objects with one list, so that all counts are of the same moment."""
        while not ended.wait(GLANCE / 2):
            for resource in RESOURCES:
                try:
                    found = len(self.kubectl.items(resource))
                except (OSError, ValueError, http.client.HTTPException):
                    continue
                self.most[resource] = max(found, self.most.get(resource, 0))

    def was_held(self) -> bool:
        """There was something of each resource, and never too much."""
        return all(0 < self.most[resource] <= MOST for resource in RESOURCES)

    def until_some_more(self) -> None:
        """Wait until more objects of each resource are created, and more creations are refused."""
        created, refused = self.created.copy(), self.refused

        def get_on() -> bool:
            return self.refused > refused and all(self.created[resource] > created[resource] for resource in RESOURCES)

        until(get_on, "they get on", why=self._why)

    def _why(self) -> str:
        return self.kubectl("get", "quota", "--output=yaml")


def start_quota(kubectl: Kubectl) -> Crowd:
    whole = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": HARD}}
    kubectl.apply(whole)
    until(lambda: kubectl.get("resourcequotas", "q").get("status", {}).get("hard") == HARD, "it is in force")
    return Crowd(kubectl)


def assert_counted(crowd: Crowd) -> None:
    """Assert that the usage in the status is the number of objects."""
    kubectl = crowd.kubectl
    secrets, pods = (len(kubectl.items(resource)) for resource in RESOURCES)
    used = {"count/secrets": str(secrets), "pods": str(pods), "requests.cpu": f"{50 * pods}m" if pods else "0"}

    def says() -> bool:
        return bool(kubectl.get("resourcequotas", "q")["status"]["used"] == used)

    until(says, f"{used} is used", why=lambda: kubectl("get", "quota", "--output=yaml"))
    kubectl("delete", "secrets,pods", "--all", "--grace-period=0", "--force")
    used = dict.fromkeys(used, "0")
    until(says, "nothing is used", why=lambda: kubectl("get", "quota", "--output=yaml"))


def test_a_quota_holds_while_all_of_an_embedded_cluster_is_killed(tmp_path: Path) -> None:
    port = free_port()
    flags = (f"--embedded-dir={tmp_path / 'kcm'}", f"--embedded-port={port}", "--leader-elect=false")

    def started(number: int) -> Manager:
        return run_kcm(tmp_path / f"kcm-{number}.log", *flags)

    manager = started(0)
    try:
        until_working(manager)
        kubectl = in_namespace(tmp_path / "kcm" / "kubeconfig", "crowded")
        crowd = start_quota(kubectl)
        with crowd.at_work():
            for number in range(KILLS):
                crowd.until_some_more()
                manager.program.kill()
                manager = started(number + 1)
                until(kubectl.api.alive, "the server is back", why=manager.program.text)
            crowd.until_some_more()
        assert crowd.was_held(), crowd.most
        assert_counted(crowd)
    finally:
        with ending(manager.program):
            pass


def killed_again_and_again(kubectl: Kubectl, directory: Path, *flags: str) -> Crowd:
    """Kill the manager repeatedly while the server continues to charge the quota."""
    given = (*flags, "--leader-elect=false", f"--controllers={CONTROLLER}")
    crowd = None
    for number in range(KILLS):
        manager = run_kcm(directory / f"kcm-{number}.log", *given)
        with ending(manager.program):
            if crowd is None:
                crowd = start_quota(kubectl)
            with crowd.at_work():
                crowd.until_some_more()
                manager.program.kill()
    assert crowd is not None
    last = run_kcm(directory / "kcm-last.log", *given)
    with ending(last.program):
        assert_counted(crowd)
    return crowd


def test_a_quota_holds_while_its_manager_is_killed(tmp_path: Path) -> None:
    server = launch(ServerSettings(directory=tmp_path / "kcm"))
    try:
        kubectl = in_namespace(server.kubeconfig, "crowded")
        crowd = killed_again_and_again(kubectl, tmp_path, f"--kubeconfig={server.kubeconfig}")
        assert crowd.was_held(), crowd.most
    finally:
        server.stop()


@pytest.mark.cluster
def test_a_quota_of_a_real_server_holds_while_its_manager_is_killed(real: RealServer, tmp_path: Path) -> None:
    kubectl = in_namespace(real.kubeconfig, "crowded")
    crowd = killed_again_and_again(kubectl, tmp_path, f"--kubeconfig={real.kubeconfig}")
    assert crowd.was_held(), crowd.most
