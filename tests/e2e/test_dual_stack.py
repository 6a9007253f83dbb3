"""A cluster of our own with addresses of both IP families, by kubectl."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import in_namespace
from tests.e2e.forks import Forks
from tests.e2e.programs import managing, until

RANGES = "--service-cluster-ip-range=10.97.0.0/16,fd00:97::/112"
CLUSTER = ("--allocate-node-cidrs", "--cluster-cidr=10.44.0.0/16,fd00:44::/48")
SLICES = "discovery.k8s.io/v1/endpointslices"


def test_services_and_pods_have_addresses_of_both_families(tmp_path: Path) -> None:
    place = tmp_path / "kcm"
    with managing(tmp_path / "kcm.log", f"--embedded-dir={place}", "--hollow-nodes=2", RANGES, *CLUSTER):
        kubectl = in_namespace(place / "kubeconfig", "dual")
        nodes = kubectl.api.get("/api/v1/nodes")["items"]
        until(
            lambda: all(ranges_of(kubectl.api.get(f"/api/v1/nodes/{name_of(node)}")) == 2 for node in nodes), "ranges"
        )
        kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2", "--port=80")
        kubectl("expose", "deployment", "web")
        assert families(kubectl.get("services", "web")) == ["IPv4"]
        kubectl("patch", "service", "web", "-p", '{"spec": {"ipFamilyPolicy": "PreferDualStack"}}')
        service = kubectl.get("services", "web")
        assert families(service) == ["IPv4", "IPv6"]
        four, six = service["spec"]["clusterIPs"]
        assert (four[:6], six[:9]) == ("10.97.", "fd00:97::")
        kubectl.until_complete("web")

        def found() -> dict[str, int]:
            return {slice_["addressType"]: len(slice_.get("endpoints") or ()) for slice_ in kubectl.items(SLICES)}

        until(lambda: found() == {"IPv4": 2, "IPv6": 2}, "pods are found by both addresses", why=kubectl.state)
        kubectl("patch", "service", "web", "-p", '{"spec": {"ipFamilyPolicy": "SingleStack"}}')
        until(lambda: found() == {"IPv4": 2}, "the slices of the second family are gone", why=kubectl.state)


def test_ranges_that_no_service_can_use_end_the_start(tmp_path: Path, forks: Forks) -> None:
    done = forks.run(
        "--secure-port=0", f"--embedded-dir={tmp_path / 'kcm'}", "--service-cluster-ip-range=10.97.0.0/16,x"
    )
    assert done.returncode == 1
    assert "--service-cluster-ip-range: 'x' does not appear to be an IPv4 or IPv6 network" in done.stderr


def families(service: dict[str, dict[str, list[str]]]) -> list[str]:
    return service["spec"]["ipFamilies"]


def name_of(node: dict[str, dict[str, str]]) -> str:
    return node["metadata"]["name"]


def ranges_of(node: dict[str, dict[str, list[str]]]) -> int:
    return len(node["spec"].get("podCIDRs") or ())
