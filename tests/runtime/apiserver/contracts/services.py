"""Services: defaults, validation, allocation and release of addresses and ports, IP families.

Scenarios are played on a server with one IP family (SINGLE), with both (DUAL), or on both servers (ANY).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.contract import Contract, embedded, real_sender
from tests.runtime.apiserver.contracts.requests import MERGE, Given, Send, Step

RANGES = {"single": ("10.0.0.0/24",), "dual": ("10.0.0.0/24", "fd00:10::/112")}
PATH = "services/s"
LB, NP, CIP, EXT = ({"type": name} for name in ("LoadBalancer", "NodePort", "ClusterIP", "ExternalName"))
LOCAL = {**LB, "externalTrafficPolicy": "Local"}
NAMED = {**EXT, "externalName": "a.example.com"}
PREFER, REQUIRE, ONE = ({"ipFamilyPolicy": f"{name}Stack"} for name in ("PreferDual", "RequireDual", "Single"))
FOUR, SIX = "IPv4", "IPv6"
PORTS = [{"port": 80}]


def new(spec: dict[str, Any], name: str = "s", **meta: Any) -> Step:
    body = {"metadata": {"name": name, **meta}, "spec": {"ports": PORTS, "selector": {"a": "b"}, **spec}}
    return Step("POST", "services", body)


def put(spec: dict[str, Any], **meta: Any) -> Step:
    return Step("PUT", PATH, new(spec, **meta).body)


def change(path: str = PATH, **spec: Any) -> Step:
    return Step("PATCH", path, {"spec": spec}, MERGE)


def ports(*given: dict[str, Any]) -> dict[str, Any]:
    return {"ports": [{"name": f"p{i}", "port": 80 + i, **port} for i, port in enumerate(given)]}


def status(*ingress: dict[str, Any]) -> Step:
    return Step("PATCH", f"{PATH}/status", {"status": {"loadBalancer": {"ingress": list(ingress)}}}, MERGE)


DELETED = Step("DELETE", PATH)

ANY: dict[str, list[Step]] = {
    "defaults of every type": [
        new({"sessionAffinity": "ClientIP"}, "a"),
        new({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {}}}, "b"),
        new({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}, "c"),
        new({"externalIPs": ["192.0.2.1"]}, "d"),
        new(LB, "e"),
        new(LOCAL, "f"),
        new({**NP, "externalTrafficPolicy": "Local"}, "g"),
        new({**NAMED, "internalTrafficPolicy": "Local"}, "h"),
        new({"clusterIP": "None", "ports": []}, "i"),
        new({**LB, "allocateLoadBalancerNodePorts": False}, "j"),
        new({"ports": [{"port": 80, "targetPort": "http", "appProtocol": "kubernetes.io/h2c"}]}, "k"),
        new({"trafficDistribution": "PreferSameNode", "internalTrafficPolicy": "Local"}, "1-starts-with-a-digit"),
    ],
    "wrong ports": [
        new({"ports": []}),
        new({"ports": [{"port": 1}, {"port": 2}]}),
        new(ports({}, {"name": "p0"}, {"name": "A_b"}, {"port": 80, "name": "x"})),
        new(ports({"port": 0}, {"port": 70000, "targetPort": 0}, {"targetPort": 70000}, {"targetPort": "no-letter--"})),
        new(ports({"protocol": "ICMP"}, {"appProtocol": "a/b/c"}, {"targetPort": "1234"}, {"nodePort": 30100})),
        new({**NP, **ports({"nodePort": 30101}, {"nodePort": 30101})}),
        new({**NP, **ports({"nodePort": 30102}, {"nodePort": 30102, "protocol": "UDP"})}),
    ],
    "wrong values": [
        new({"type": "Other", "sessionAffinity": "Cookie", "internalTrafficPolicy": "Some"}),
        new({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}}),
        new({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}}),
        new({"trafficDistribution": "PreferFar", "selector": {"a b": "c d"}}),
        new({"externalTrafficPolicy": "Local"}),
        new({**LB, "externalTrafficPolicy": "Near"}),
        new({"healthCheckNodePort": 30110}),
        new({**LB, "healthCheckNodePort": 30110}),
        new({"loadBalancerClass": "a.b/c", "allocateLoadBalancerNodePorts": True}),
        new({**LB, "loadBalancerClass": "a b"}),
        new({"loadBalancerSourceRanges": ["10.0.0.0/8"]}),
        new({**LB, "loadBalancerSourceRanges": [" 10.0.0.0/8 ", "10.0.0.1/8", "10.0.0.0", "010.0.0.0/8", "::/200"]}),
        new(LB, annotations={"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8, x"}),
        new({"externalIPs": ["0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.1", "x", "010.0.0.1", "::ffff:1.2.3.4"]}),
        new(
            {},
            annotations={
                "service.kubernetes.io/topology-mode": "Auto",
                "service.kubernetes.io/topology-aware-hints": "x",
            },
        ),
        new({**NAMED, "externalName": "A_b."}),
        new({**EXT, "externalName": ""}),
        new({**NAMED, "clusterIPs": ["10.0.0.9"], "clusterIP": "10.0.0.9", "ipFamilies": [FOUR], **ONE}),
        new({**LB, "clusterIP": "None"}),
        new({**NP, "clusterIP": "None"}),
    ],
    "wrong addresses": [
        new({"clusterIP": "10.0.0.300"}),
        new({"clusterIP": "10.0.0.012"}),
        new({"clusterIP": "192.168.0.1"}),
        new({"clusterIP": "10.0.0.0"}),
        new({"clusterIP": "10.0.0.255"}),
        new({"clusterIP": "10.0.0.201"}, "first"),
        new({"clusterIP": "10.0.0.201"}),
        new({"clusterIPs": ["10.0.0.202"]}),
        new({"clusterIP": "10.0.0.202", "clusterIPs": ["10.0.0.203"]}),
        new({"clusterIP": "None", "clusterIPs": ["None", "10.0.0.204"]}),
        new({"clusterIP": "10.0.0.204", "clusterIPs": ["10.0.0.204", "None"]}),
        new({"clusterIP": "10.0.0.205", "clusterIPs": ["10.0.0.205", "10.0.0.206"], **PREFER}),
        new({"clusterIP": "10.0.0.205", "clusterIPs": ["10.0.0.205", "fd00:10::5", "10.0.0.206"], **PREFER}),
        new({"clusterIP": "10.0.0.205", "ipFamilies": [SIX]}),
        new({"clusterIP": "fd00:10::5", "ipFamilies": [FOUR]}),
        new({"ipFamilies": [FOUR, FOUR]}),
        new({"ipFamilies": ["IPv5"], "ipFamilyPolicy": "Triple"}),
        new({"ipFamilies": [FOUR, SIX]}),
        new({"ipFamilies": [FOUR, SIX], **ONE}),
        new({"clusterIP": "10.0.0.207", "clusterIPs": ["10.0.0.207", "fd00:10::7"], **ONE}),
        new({"clusterIP": "fd00:11::7"}),
    ],
    "an address stays": [
        new({"clusterIP": "10.0.0.211"}),
        change(clusterIP="10.0.0.212"),
        change(clusterIPs=["10.0.0.212"]),
        change(clusterIP="10.0.0.212", clusterIPs=["10.0.0.212"]),
        change(clusterIP=None),
        change(clusterIP=None, clusterIPs=None),
        change(clusterIP="", clusterIPs=[]),
        change(clusterIP="None", clusterIPs=["None"]),
        change(ipFamilies=[SIX]),
        put({}),
        put({"clusterIP": "10.0.0.211"}),
        change(**NAMED),
        change(**NAMED, clusterIP=None, clusterIPs=None),
        new({"clusterIP": "10.0.0.211"}, "other"),
        change(**CIP, externalName=None, clusterIP="10.0.0.211"),
        change(**CIP, externalName=None),
    ],
    "node ports": [
        new({**NP, **ports({"nodePort": 30121}, {})}, "first"),
        new({**NP, **ports({"nodePort": 30121})}),
        new({**NP, **ports({"nodePort": 80})}),
        new({**NP, **ports({"port": 53, "nodePort": 30122}, {"port": 53, "protocol": "UDP"})}),
        change("services/s", **ports({"nodePort": 30122}, {"nodePort": 30123})),
        change("services/s", **ports({"nodePort": 30124}, {"nodePort": 30124})),
        change("services/s", **ports({"nodePort": 30121})),
        put({**NP, **ports({}, {})}),
        change(**CIP, **ports({"nodePort": 30125})),
        change(**CIP),
        new({**NP, **ports({"nodePort": 30122})}, "second"),
        change(**LB, allocateLoadBalancerNodePorts=False),
        change(allocateLoadBalancerNodePorts=True),
        change(allocateLoadBalancerNodePorts=False),
        change(**ports({"nodePort": None})),
        Step("DELETE", "services/first"),
        Step("DELETE", "services/second"),
        DELETED,
        new({**NP, **ports({"nodePort": 30121}, {"nodePort": 30122})}),
    ],
    "health check node ports": [
        new({**LOCAL, "healthCheckNodePort": 30131}),
        new({**LOCAL, "healthCheckNodePort": 30131}, "other"),
        new({**LOCAL, "healthCheckNodePort": 81}, "other"),
        new({**NP, **ports({"nodePort": 30131})}, "other"),
        change(healthCheckNodePort=30132),
        put(LOCAL),
        change(externalTrafficPolicy="Cluster"),
        change(externalTrafficPolicy="Local"),
        change(**NP),
        new({**LOCAL, "healthCheckNodePort": 30131}, "other"),
        change(**LOCAL, healthCheckNodePort=30131),
        change(**LOCAL, healthCheckNodePort=30133),
        change(**CIP),
        Step("DELETE", "services/other"),
        new({**NP, **ports({"nodePort": 30131})}, "other"),
    ],
    "load balancer classes": [
        new({**LB, "loadBalancerClass": "a.b/c"}),
        change(loadBalancerClass="a.b/d"),
        change(loadBalancerClass=None),
        change(**CIP, loadBalancerClass="a.b/d"),
        change(**CIP),
        change(loadBalancerClass="a.b/d"),
        change(**LB),
        change(loadBalancerClass="a.b/d"),
        change(**NP, loadBalancerClass="a b"),
    ],
    "external policies": [
        new({**NP, "externalTrafficPolicy": "Local"}),
        change(**CIP, externalTrafficPolicy="Cluster"),
        change(**CIP),
        change(externalIPs=["192.0.2.2"]),
        change(externalIPs=None),
        change(internalTrafficPolicy="Local"),
        change(internalTrafficPolicy=None),
    ],
    "status of load balancers": [
        new(LB),
        status({"ip": "192.0.2.3"}),
        status({"ip": "x"}, {"hostname": "A_b"}, {"hostname": "1.2.3.4"}, {"ipMode": "VIP"}),
        status({"ip": "192.0.2.3", "ipMode": "Other"}),
        status({"ip": "192.0.2.3", "ipMode": "Proxy", "ports": [{"port": 80, "protocol": "TCP"}]}),
        change(**CIP),
        status({"ip": "192.0.2.3"}),
    ],
    "headless services": [
        new({"clusterIP": "None"}),
        change(ipFamilies=[SIX]),
        change(clusterIP="10.0.0.221", clusterIPs=["10.0.0.221"]),
        new({"clusterIP": "None", "selector": None}, "any"),
        new({"clusterIP": "None", "selector": None, **ONE}, "one"),
        new({"clusterIP": "None", "selector": None, "ipFamilies": [SIX]}, "six"),
        new({"clusterIP": "None", "selector": None, "ipFamilies": [SIX, FOUR], **ONE}, "refused"),
        change("services/any", selector={"a": "b"}),
        new({"clusterIP": "None", **REQUIRE}, "required"),
        new({"clusterIP": "None", **PREFER}, "preferred"),
    ],
    "families": [
        new({}, "default"),
        new(ONE, "one"),
        new(PREFER, "preferred"),
        new(REQUIRE, "required"),
        new({"ipFamilies": [FOUR]}, "four"),
        new({"ipFamilies": [SIX]}, "six"),
        new({"ipFamilies": [SIX], **PREFER}, "six-preferred"),
        new({"ipFamilies": [SIX, FOUR], **PREFER}, "both-preferred"),
        new({"ipFamilies": [SIX, FOUR], **REQUIRE}, "both-required"),
        change("services/default", **PREFER),
        change("services/one", **REQUIRE),
        change("services/preferred", **ONE),
        change("services/preferred", **REQUIRE),
    ],
}

DUAL: dict[str, list[Step]] = {
    "addresses of both": [
        new({"clusterIP": "fd00:10::41"}, "six"),
        new({"clusterIP": "fd00:10::41"}),
        new({"clusterIP": "FD00:10::0:42"}, "spelt"),
        new({"clusterIP": "fd00:10::42"}),
        new({"clusterIP": "10.0.0.41", "clusterIPs": ["10.0.0.41", "fd00:10::43"], **PREFER}),
        new({"clusterIP": "10.0.0.42", "clusterIPs": ["10.0.0.42", "fd00:10::43"], **REQUIRE}, "taken"),
        new({"clusterIP": "10.0.0.43", "clusterIPs": ["10.0.0.43", "fd00:10::44"]}, "no-policy"),
        new({"clusterIP": "fd00:10::45", **REQUIRE}, "six-first"),
        new({"clusterIP": "10.0.0.45", "ipFamilies": [FOUR, SIX], **REQUIRE}, "one-named"),
    ],
    "upgrades and downgrades": [
        new({"clusterIP": "10.0.0.51"}),
        change(ipFamilies=[FOUR, SIX]),
        change(clusterIPs=["10.0.0.51", "fd00:10::51"]),
        change(**PREFER, clusterIPs=["10.0.0.51", "fd00:10::51"]),
        change(clusterIPs=["10.0.0.51"]),
        change(ipFamilies=[FOUR]),
        change(clusterIPs=["fd00:10::51", "10.0.0.51"], clusterIP="fd00:10::51"),
        change(ipFamilies=[SIX, FOUR]),
        change(**REQUIRE),
        change(ipFamilyPolicy=None),
        put({}),
        change(**ONE),
        new({"clusterIP": "fd00:10::51"}, "released"),
        change(**REQUIRE),
        change(**ONE, clusterIPs=["10.0.0.51"], ipFamilies=[FOUR]),
        change(**REQUIRE, ipFamilies=[SIX]),
        change(**REQUIRE, clusterIPs=["10.0.0.51", "fd00:10::51"]),
        change(**REQUIRE),
        change(**NAMED),
        change(**CIP, **REQUIRE, externalName=None),
    ],
}

SCENARIOS = {
    **{f"{stack}: {name}": steps for stack in RANGES for name, steps in ANY.items()},
    **{f"dual: {name}": steps for name, steps in DUAL.items()},
}


def play(scenario: str, send: Send) -> list[dict[str, Any]]:
    """Play a scenario without resourceVersions: a field without manager is a change there, and not here."""
    try:
        answers = requests.play_steps(SCENARIOS[scenario], send)
    finally:  # the range has few addresses
        send(Given("DELETE", f"/api/v1/namespaces/{requests.NAMESPACE}/services", b"", "", {}))
    for answer in answers:
        answer["body"].get("metadata", {}).pop("resourceVersion", None)
    return answers


@contextmanager
def _real(directory: Path, assets: Path) -> Iterator[Callable[[str], Send]]:
    """Start one server for each family policy."""
    with ExitStack() as servers:
        sends = {}
        for stack, ranges in RANGES.items():
            (directory / stack).mkdir()
            flag = f"--service-cluster-ip-range={','.join(ranges)}"
            sends[stack] = servers.enter_context(real_sender(directory / stack, assets, flag))
        yield lambda scenario: requests.in_a_namespace_of_its_own(sends[scenario.partition(":")[0]])


def _embedded(make_api: type[Api], scenario: str) -> Send:
    return embedded(service_ranges=RANGES[scenario.partition(":")[0]])(make_api, scenario)


CONTRACT = Contract("services", SCENARIOS, play, embedded=_embedded, real=_real)
