"""The life of two ServiceCIDRs and of the addresses of a Service, played on any cluster."""

from __future__ import annotations

import json
import time
import urllib.error
from collections.abc import Callable

from tests.e2e.kubectl import Api, Kubectl, Object
from tests.e2e.programs import until
from tests.e2e.snapshots import Snapshot

NETWORKING = "/apis/networking.k8s.io/v1"
SECOND, LARGER = "second", "second-larger"
ADDRESS = "10.200.0.5"
GRACE = 30.0  # seconds in which a ServiceCIDR is deleted that can be
QUIET = 8.0  # seconds in which none is: the controller waits for ten


class RangeUser:
    """User of ServiceCIDRs, who notes what each step left behind."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl, self.api = kubectl, kubectl.api
        self.seen: Snapshot = {}

    def play(self) -> Snapshot:
        self._create_cidr(SECOND, "10.200.0.0/28")
        self._until_ready(SECOND, "True")
        self._note("the second ServiceCIDR is ready")
        until(lambda: not self._create_service("cache", ADDRESS), "the Service gets its address")
        self._refused("the address of another Service", ADDRESS)
        self._refused("the network address", "10.200.0.0")
        self._refused("the broadcast address", "10.200.0.15")
        self._refused("an address of no ServiceCIDR", "10.201.0.1")
        self._note("a Service has an address of it")
        self._delete("servicecidrs", SECOND)
        self._until_ready(SECOND, "False")
        until(lambda: "does not match" in self._create_service("late", "10.200.0.6"), "nothing is allocated from it")
        self._note("it is being deleted")
        self._create_cidr(LARGER, "10.200.0.0/16")
        self._until_ready(LARGER, "True")
        self._until_gone(SECOND, "the larger ServiceCIDR replaces it")
        until(lambda: not self._create_service("late", "10.200.0.15"), "its last address can be allocated")
        self._note("a larger ServiceCIDR has replaced it")
        self._delete("servicecidrs", LARGER)
        self._until_ready(LARGER, "False")
        for name in ("cache", "late"):
            self.api.request("DELETE", self._kubectl.path("services", name))
        self._until_gone(LARGER, "it is deleted after the last Service")
        self._note("nothing is left")
        return self.seen

    def _create_cidr(self, name: str, *cidrs: str) -> None:
        self.api.request("POST", f"{NETWORKING}/servicecidrs", {"metadata": {"name": name}, "spec": {"cidrs": cidrs}})

    def _create_service(self, name: str, address: str) -> str:
        """Create a Service. Return the error if it is refused."""
        body = {"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}
        try:
            self.api.request("POST", self._kubectl.path("services"), body)
        except urllib.error.HTTPError as err:
            return str(json.load(err)["message"])
        return ""

    def _refused(self, title: str, address: str) -> None:
        error = self._create_service("refused", address)
        assert error, title
        self.seen[f"{len(self.seen):02d} {title}"] = [error]

    def _delete(self, resource: str, name: str) -> None:
        self.api.request("DELETE", f"{NETWORKING}/{resource}/{name}")

    def _until_gone(self, name: str, what: str) -> None:
        time.sleep(QUIET)  # polling takes more processor time than all other steps
        until(lambda: not self._exists(name), what, within=GRACE - QUIET)

    def _exists(self, name: str) -> bool:
        return name in [found["metadata"]["name"] for found in self._items("servicecidrs")]

    def _items(self, resource: str) -> list[Object]:
        items: list[Object] = self.api.get(f"{NETWORKING}/{resource}")["items"]
        return items

    def _until_ready(self, name: str, status: str) -> None:
        until(lambda: ready(self.api, name).get("status") == status, f"{name} has Ready={status}")

    def _note(self, title: str) -> None:
        cidrs = [shown(found) for found in self._items("servicecidrs") if found["metadata"]["name"] != "kubernetes"]
        addresses = [
            shown(found) for found in self._items("ipaddresses") if found["metadata"]["name"].startswith("10.200.")
        ]
        events = self.api.get("/api/v1/namespaces/default/events")["items"]
        about = [
            f"{event['type']} {event['reason']}: {event['message']}"
            for event in events
            if event["involvedObject"]["kind"] in ("ServiceCIDR", "IPAddress")
        ]
        self.seen[f"{len(self.seen):02d} {title}"] = [*cidrs, *addresses, *sorted(about)]


def ready(api: Api, name: str) -> Object:
    """Return the condition Ready of a ServiceCIDR; {} if it has none."""
    status: Object = api.get(f"{NETWORKING}/servicecidrs/{name}").get("status", {})
    (condition,) = status.get("conditions") or [{}]
    found: Object = condition
    return found


def shown(
    obj: Object, masked: Callable[[str], bool] = lambda field: field.endswith(("Time", "time", "Timestamp"))
) -> str:
    """Return an object as JSON, with its managers and without times, uid and version."""
    meta = {field: value for field, value in obj["metadata"].items() if field not in ("uid", "resourceVersion")}

    def plain(value: object, field: str = "") -> object:
        if isinstance(value, dict):
            return {name: plain(child, name) for name, child in value.items()}
        if isinstance(value, list):
            return [plain(child) for child in value]
        return "<time>" if isinstance(value, str) and masked(field) else value

    managed = meta.pop("managedFields", [])
    managers = sorted(json.dumps(plain(entry), sort_keys=True) for entry in managed)
    return json.dumps(plain({**obj, "metadata": {**meta, "managed": managers}}), sort_keys=True, indent=1)
