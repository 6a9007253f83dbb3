"""Endpoints and EndpointSlices of the real kube-controller-manager and of kcm, on one kube-apiserver with addresses of
both families. Snapshots must be equal except for names, uids, times and versions, and events except for their counts.
Other differences and their reasons:

- Upstream's order of endpoints is random, and its order of ports follows a hash. In both managers it is random which
  of many endpoints is in which slice, and whether the last of several writes contains the time of the change.
- managedFields name endpoints and ports that are empty: ours sends an empty list, the real one null.
- The event FailedToCreateEndpoint is in the namespace of the Endpoints, there in "default".
- Not played, as upstream does not react: a slice whose managed-by label a user changes, and a pod that is ready without
  a node (see the docstrings of the reconcilers).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Api, Kubectl, Object
from tests.e2e.programs import OF_SERVICES, ending, run_kcm, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_manager, real_server
from tests.e2e.service_scenes import (
    SCENES,
    User,
    changes_of_type,
    make_nodes,
    many_pods,
    mirrored,
    mirrored_in_large_numbers,
)
from tests.e2e.snapshots import Snapshot, differences, normalised

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

UNLIMITED = ("--kube-api-qps=1000", "--kube-api-burst=1000", f"--controllers={','.join(OF_SERVICES)}")
RANGES = "--service-cluster-ip-range=10.0.0.0/16,fd00:10::/112"
QUIET = 1.5  # seconds without a change
SLICES = "discovery.k8s.io/v1/endpointslices"
OWNER = "kubernetes.io/service-name"
TIMED = (changes_of_type, mirrored, mirrored_in_large_numbers)  # their changes come one at a time
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
Play = Callable[[User], None]


class Looking:
    """A Scene that keeps snapshots."""

    def __init__(self, scene: Play, kubectl: Kubectl) -> None:
        self._scene, self._kubectl = scene, kubectl
        self.api, self.path = kubectl.api, kubectl.path
        self.seen: Snapshot = {}

    def look(self, title: str) -> None:
        deadline, before, since = time.monotonic() + 60.0, versions(self._kubectl), time.monotonic()
        while time.monotonic() - since < QUIET:
            assert time.monotonic() < deadline, f"there is no end to the changes: {title}"
            time.sleep(0.3)
            now = versions(self._kubectl)
            if now != before:
                before, since = now, time.monotonic()
        self.seen |= {
            f"{len(self.seen):03d} {title}: {what}": lines
            for what, lines in snapshot(self._scene, self._kubectl).items()
        }


def versions(kubectl: Kubectl) -> set[str]:
    """Return the resourceVersions of slices and Endpoints."""
    return {item["metadata"]["resourceVersion"] for what in (SLICES, "endpoints") for item in kubectl.items(what)}


def snapshot(scene: Play, kubectl: Kubectl) -> Snapshot:
    how = {"timed": scene in TIMED, "counted": scene is not many_pods}
    found = {
        "slices": [shown(slice_, **how) for slice_ in kubectl.items(SLICES)],
        "endpoints": [shown(item, **how) for item in kubectl.items("endpoints")],
        "events": [text_of(event) for event in kubectl.items("events")],
    }
    plain: Snapshot = {what: sorted(normalised(lines, kubectl.namespace, {})) for what, lines in found.items()}
    texts = [text for text in plain["events"] if "FailedToCreateEndpoint" not in text]
    plain["events"] = list(dict.fromkeys(texts))
    plain["endpoints behind"] = spread(kubectl)
    return plain


def spread(kubectl: Kubectl) -> list[str]:
    """Return the endpoints of all slices, without their distribution over the slices."""
    found = [
        json_of(
            [
                slice_["metadata"]["labels"].get(OWNER),
                slice_["addressType"],
                sorted(map(json_of, slice_["ports"] or ())),
                each,
            ]
        )
        for slice_ in kubectl.items(SLICES)
        for each in slice_["endpoints"] or ()
    ]
    return sorted(normalised(found, kubectl.namespace, {}))


def ports_of(slice_: Object) -> list[str]:
    return sorted(map(json_of, slice_["ports"] or ()))


def text_of(event: Object) -> str:
    source, about = event["source"].get("component") or event["reportingComponent"], event["involvedObject"]
    return f"{source}: {event['type']} {event['reason']} of {about['kind']} {about['name']}: {event['message']}"


def shown(obj: Object, *, timed: bool, counted: bool) -> str:
    meta = obj["metadata"]
    for field in ("uid", "resourceVersion", "creationTimestamp", "generation"):
        meta.pop(field, None)
    written = [{**entry["fieldsV1"], "operation": entry["operation"]} for entry in meta.pop("managedFields", ())]
    annotations = meta.get("annotations", {})
    if not timed and annotations.pop(TRIGGER, None) and not annotations:
        del meta["annotations"]
    for fields in written:
        for field in ("f:endpoints", "f:ports"):
            fields.pop(field, None)
        own = fields.get("f:metadata", {})
        if (
            not timed
            and own.get("f:annotations", {}).pop(f"f:{TRIGGER}", None) == {}
            and not set(own["f:annotations"]) - {"."}
        ):
            del own["f:annotations"]
    meta["managed"] = sorted(map(json_of, written))
    if "endpoints" in obj:
        obj["endpoints"] = len(obj["endpoints"] or ()) if counted else None
        obj["ports"] = ports_of(obj)
    if "subsets" in obj:
        obj["subsets"] = sorted(map(json_of, obj["subsets"]))
    return json_of(obj, indent=1)


def json_of(value: object, indent: int | None = None) -> str:
    return json.dumps(value, sort_keys=True, indent=indent)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    assets = assets_or_skip()
    with real_server(tmp_path_factory.mktemp("services"), assets, RANGES) as found:
        make_nodes(Api(found.kubeconfig))
        yield found


def play_all(server: RealServer, whose: str) -> dict[Play, Snapshot]:
    def play(scene: Play) -> Snapshot:
        looking = Looking(scene, in_namespace(server.kubeconfig, namespace_of(scene, whose)))
        scene(User(looking))
        return looking.seen

    with ThreadPoolExecutor(max_workers=6) as users:
        return dict(zip(SCENES, users.map(play, SCENES), strict=True))


def namespace_of(scene: Play, whose: str) -> str:
    return f"{scene.__name__.replace('_', '-')}-{whose}"


def left(server: RealServer, whose: str) -> Snapshot:
    """Return the objects with versions and uids, which show each write."""
    kubectls = [Kubectl(Api(server.kubeconfig), namespace_of(scene, whose)) for scene in SCENES]
    return {
        f"{kubectl.namespace} {resource}": sorted(json_of(item, indent=1) for item in kubectl.items(resource))
        for kubectl in kubectls
        for resource in (SLICES, "endpoints")
    }


@pytest.fixture(scope="module")
def with_the_real_one(server: RealServer) -> dict[Play, Snapshot]:
    with real_manager(server, *UNLIMITED):
        return play_all(server, "real")


@pytest.fixture(scope="module")
def before(server: RealServer, with_the_real_one: object) -> Snapshot:
    """Objects of kube-controller-manager before kcm starts."""
    return left(server, "real")


@pytest.fixture(scope="module")
def with_ours(server: RealServer, before: object) -> dict[Play, Snapshot]:
    flags = (f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", *UNLIMITED)
    manager = run_kcm(server.directory / "kcm.log", *flags)
    with ending(manager.program):
        until(manager.healthy, "it works", why=manager.program.text)
        return play_all(server, "ours")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_slices_are_the_same_as_with_kube_controller_manager(
    scene: Play, with_the_real_one: dict[Play, Snapshot], with_ours: dict[Play, Snapshot]
) -> None:
    found = differences(with_the_real_one[scene], with_ours[scene])
    if found:
        pytest.fail(found, pytrace=False)


def test_we_find_nothing_to_do_in_what_the_real_one_left(
    server: RealServer, before: Snapshot, with_ours: object
) -> None:
    found = differences(before, left(server, "real"))
    if found:
        pytest.fail(found, pytrace=False)
