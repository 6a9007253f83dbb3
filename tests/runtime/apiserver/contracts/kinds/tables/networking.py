"""Objects of networking.k8s.io and discovery.k8s.io, and Endpoints."""

from __future__ import annotations

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

ROOT = "/apis/networking.k8s.io/v1"
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
PATH = {"path": "/", "pathType": "Prefix", "backend": BACKEND}


def _rule(**path: object) -> dict[str, object]:
    return {"spec": {"rules": [{"http": {"paths": [{**PATH, **path}]}}]}}


def _host(host: str) -> dict[str, object]:
    return {"spec": {"rules": [{"host": host, "http": {"paths": [PATH]}}]}}


def _ports(*ports: dict[str, object]) -> dict[str, object]:
    return {"spec": {"ingress": [{"ports": list(ports)}]}}


def _peer(peer: dict[str, object]) -> dict[str, object]:
    return {"spec": {"ingress": [{"from": [peer]}]}}


def _slice(**endpoint: object) -> dict[str, object]:
    return {"endpoints": [{"addresses": ["10.1.1.1"], **endpoint}]}


TABLE: Table = {
    "ingresses": Kind(
        f"{ROOT}/namespaces/contract/ingresses",
        {"metadata": {"name": "i"}, "spec": {"rules": [{"host": "a.b", "http": {"paths": [PATH]}}]}},
        creates={
            "nothing": {"spec": None},
            "a default backend": {"spec": {"rules": None, "defaultBackend": BACKEND}},
            "a backend of nothing": {"spec": {"rules": None, "defaultBackend": {}}},
            "two backends": {
                "spec": {"defaultBackend": {**BACKEND, "resource": {"kind": "a", "name": "b", "apiGroup": "c.d"}}}
            },
            "a resource": {"spec": {"defaultBackend": {"resource": {"kind": "a", "name": "b", "apiGroup": "c.d"}}}},
            "a resource of nothing": {"spec": {"defaultBackend": {"resource": {"kind": "", "name": ""}}}},
            "no service name": _rule(backend={"service": {"port": {"number": 80}}}),
            "an odd service name": _rule(backend={"service": {"name": "A_", "port": {"number": 80}}}),
            "no port": _rule(backend={"service": {"name": "a"}}),
            "two ports": _rule(backend={"service": {"name": "a", "port": {"name": "b", "number": 80}}}),
            "a high port": _rule(backend={"service": {"name": "a", "port": {"number": 70000}}}),
            "an odd port name": _rule(backend={"service": {"name": "a", "port": {"name": "a_very_long_port_name"}}}),
            "no path type": _rule(pathType=None),
            "an unknown path type": _rule(pathType="Regex"),
            "a relative path": _rule(path="a"),
            "no path": _rule(path=None),
            "a path of any kind": _rule(path="a", pathType="ImplementationSpecific"),
            "no path of any kind": _rule(path=None, pathType="ImplementationSpecific"),
            "double slashes": _rule(path="/a//b/../c/./d%2f"),
            "no paths": {"spec": {"rules": [{"http": {"paths": []}}]}},
            "a rule of nothing": {"spec": {"rules": [{}]}},
            "an odd host": _host("A_b"),
            "an address as host": _host("10.0.0.1"),
            "a wildcard": _host("*.a.b"),
            "an odd wildcard": _host("a.*.b"),
            "a class": {"spec": {"ingressClassName": "nginx"}},
            "an odd class": {"spec": {"ingressClassName": "N_"}},
            "tls": {"spec": {"tls": [{"hosts": ["a.b"], "secretName": "s"}]}},
            "odd tls": {"spec": {"tls": [{"hosts": ["A_"], "secretName": "S_"}]}},
            "a class by annotation and by name": {
                "metadata": {"annotations": {"kubernetes.io/ingress.class": "a"}},
                "spec": {"ingressClassName": "b"},
            },
        },
        updates={
            "another host": _host("c.d"),
            "an odd class": {"spec": {"ingressClassName": "N_"}},
            "a label": {"metadata": {"labels": {"a": "b"}}},
        },
        statuses={
            "an address": {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}},
            "an odd address": {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3"}]}}},
            "an odd host": {"status": {"loadBalancer": {"ingress": [{"hostname": "A_"}]}}},
            "an address as host": {"status": {"loadBalancer": {"ingress": [{"hostname": "1.2.3.4"}]}}},
            "ports": {
                "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ports": [{"port": 0, "protocol": "X"}]}]}}
            },
        },
    ),
    "ingressclasses": Kind(
        f"{ROOT}/ingressclasses",
        {"metadata": {"name": "nginx"}, "spec": {"controller": "example.com/ingress"}},
        creates={
            "no controller": {"spec": {"controller": None}},
            "nothing": {"spec": None},
            "an odd controller": {"spec": {"controller": "ingress"}},
            "another odd controller": {"spec": {"controller": "Example_/a"}},
            "a long controller": {"spec": {"controller": f"example.com/{'a' * 250}"}},
            "parameters": {"spec": {"parameters": {"kind": "A", "name": "b", "apiGroup": "c.d"}}},
            "parameters of nothing": {"spec": {"parameters": {"kind": "", "name": ""}}},
            "odd parameters": {"spec": {"parameters": {"kind": "A/", "name": "b/", "apiGroup": "C_"}}},
            "an unknown scope": {"spec": {"parameters": {"kind": "A", "name": "b", "scope": "World"}}},
            "a namespace is missing": {"spec": {"parameters": {"kind": "A", "name": "b", "scope": "Namespace"}}},
            "a namespace too many": {
                "spec": {"parameters": {"kind": "A", "name": "b", "scope": "Cluster", "namespace": "c"}}
            },
            "an odd namespace": {
                "spec": {"parameters": {"kind": "A", "name": "b", "scope": "Namespace", "namespace": "C_"}}
            },
        },
        updates={
            "another controller": {"spec": {"controller": "example.com/other"}},
            "parameters": {"spec": {"parameters": {"kind": "A", "name": "b"}}},
            "a label": {"metadata": {"labels": {"a": "b"}}},
        },
    ),
    "networkpolicies": Kind(
        f"{ROOT}/namespaces/contract/networkpolicies",
        {"metadata": {"name": "np"}, "spec": {"podSelector": {}}},
        creates={
            "nothing": {"spec": None},
            "an egress rule": {"spec": {"egress": [{}]}},
            "both rules": {"spec": {"ingress": [{}], "egress": [{}]}},
            "an odd selector": {"spec": {"podSelector": {"matchLabels": {"-": "a b"}}}},
            "an unknown type": {"spec": {"policyTypes": ["Sideways"]}},
            "three types": {"spec": {"policyTypes": ["Ingress", "Egress", "Ingress"]}},
            "a port": _ports({"port": 80}),
            "a named port": _ports({"port": "http", "protocol": "UDP"}),
            "an odd port": _ports({"port": 0}, {"port": "H_"}),
            "an unknown protocol": _ports({"port": 80, "protocol": "X"}),
            "a range": _ports({"port": 80, "endPort": 90}),
            "a range that ends early": _ports({"port": 80, "endPort": 70}),
            "a range of a name": _ports({"port": "http", "endPort": 70}),
            "a range without a beginning": _ports({"endPort": 70}),
            "a peer of nothing": _peer({}),
            "an odd peer": _peer({"podSelector": {"matchLabels": {"-": "a"}}, "namespaceSelector": {}}),
            "a block": _peer({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}),
            "an odd block": _peer({"ipBlock": {"cidr": "10.0.0.0"}}),
            "no block": _peer({"ipBlock": {}}),
            "an exception outside": _peer({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.1.0.0/16", "x"]}}),
            "an exception of all": _peer({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}}),
            "a block and a selector": _peer({"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}),
        },
        updates={
            "an egress rule": {"spec": {"egress": [{}]}},
            "an odd selector": {"spec": {"podSelector": {"matchLabels": {"-": "a b"}}}},
        },
    ),
    "servicecidrs": Kind(
        f"{ROOT}/servicecidrs",
        {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.77.0.0/24"]}},
        creates={
            "nothing": {"spec": None},
            "three": {"spec": {"cidrs": ["10.78.0.0/24", "fd00::/112", "10.79.0.0/24"]}},
            "two of a family": {"spec": {"cidrs": ["10.78.0.0/24", "10.79.0.0/24"]}},
            "both families": {"spec": {"cidrs": ["10.78.0.0/24", "fd00:1::/112"]}},
            "an odd one": {"spec": {"cidrs": ["10.78.0.0"]}},
            "an inexact one": {"spec": {"cidrs": ["10.78.0.5/24"]}},
            "an empty one": {"spec": {"cidrs": [""]}},
            "an empty list": {"spec": {"cidrs": []}},
            "one twice": {"spec": {"cidrs": ["10.78.0.0/24", "10.78.0.0/24"]}},
            "leading zeros": {"spec": {"cidrs": ["010.78.0.0/24"]}},
            "a long form": {"spec": {"cidrs": ["fd00:0001:0::/112"]}},
            "a mapped one": {"spec": {"cidrs": ["::ffff:10.78.0.0/120"]}},
            "a single address": {"spec": {"cidrs": ["10.78.0.1/32"]}},
            "a bad name": {"metadata": {"name": "M_"}},
        },
        updates={
            "another": {"spec": {"cidrs": ["10.78.0.0/24"]}},
            "the other order": {"spec": {"cidrs": ["fd00:2::/112", "10.77.0.0/24"]}},
            "none": {"spec": {"cidrs": None}},
            "an odd second": {"spec": {"cidrs": ["10.77.0.0/24", "fd00"]}},
            "a finalizer": {"metadata": {"finalizers": ["networking.k8s.io/service-cidr-finalizer"]}},
            "no version": {"metadata": {"resourceVersion": None}},
            "one more": {"spec": {"cidrs": ["10.77.0.0/24", "fd00:2::/112"]}},
            "a label": {"metadata": {"labels": {"a": "b"}}},
        },
        statuses={
            "ready": {
                "status": {
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "True",
                            "reason": "a",
                            "message": "",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }
                    ]
                }
            },
            "an odd condition": {"status": {"conditions": [{"type": "Ready", "status": "Perhaps", "reason": ""}]}},
        },
    ),
    "ipaddresses": Kind(
        f"{ROOT}/ipaddresses",
        {
            "metadata": {"name": "10.77.0.9"},
            "spec": {"parentRef": {"resource": "services", "name": "a", "namespace": "b"}},
        },
        creates={
            "no address": {"metadata": {"name": "a"}},
            "an odd address": {"metadata": {"name": "010.77.0.9"}},
            "a long form": {"metadata": {"name": "fd00:0::1"}},
            "nothing": {"spec": None},
            "no resource": {"spec": {"parentRef": {"resource": None}}},
            "no name": {"spec": {"parentRef": {"name": None}}},
            "odd names": {"spec": {"parentRef": {"group": "G_", "resource": "r/", "name": "n/", "namespace": "n/"}}},
            "a group": {"spec": {"parentRef": {"group": "a.b"}}},
            "no parent": {"spec": {"parentRef": None}},
            "no namespace": {"spec": {"parentRef": {"namespace": None}}},
            "an address of the other family": {"metadata": {"name": "fd00:77::9"}},
            "a mapped address": {"metadata": {"name": "::ffff:10.77.0.9"}},
            "a large form": {"metadata": {"name": "FD00::9"}},
        },
        updates={
            "no parent": {"spec": {"parentRef": None}},
            "an odd parent": {"spec": {"parentRef": {"name": "n/"}}},
            "no version": {"metadata": {"resourceVersion": None}},
            "another parent": {"spec": {"parentRef": {"name": "c"}}},
            "a label": {"metadata": {"labels": {"a": "b"}}},
        },
    ),
    "endpointslices": Kind(
        "/apis/discovery.k8s.io/v1/namespaces/contract/endpointslices",
        {
            "metadata": {"name": "s"},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.1.1"]}],
            "ports": [{"port": 80}],
        },
        creates={
            "no type": {"addressType": None},
            "an unknown type": {"addressType": "IPX"},
            "no addresses": _slice(addresses=[]),
            "an odd address": _slice(addresses=["10.1.1"]),
            "a loopback": _slice(addresses=["127.0.0.1"]),
            "an address of the other family": _slice(addresses=["fd00::1"]),
            "many addresses": _slice(addresses=[f"10.1.1.{i}" for i in range(101)]),
            "an odd hostname": _slice(hostname="A_"),
            "an odd node": _slice(nodeName="N_"),
            "a forbidden topology": _slice(deprecatedTopology={"kubernetes.io/hostname": "a"}),
            "hints": _slice(hints={"forZones": [{"name": "a"}, {"name": "a"}]}),
            "many hints": _slice(hints={"forZones": [{"name": f"z{i}"} for i in range(9)]}),
            "ports of one name": {"ports": [{"port": 1}, {"port": 2}]},
            "an odd port": {"ports": [{"name": "A_", "protocol": "X", "appProtocol": "/"}]},
            "a name": {"addressType": "FQDN", "endpoints": [{"addresses": ["a.b"]}]},
            "an odd name": {"addressType": "FQDN", "endpoints": [{"addresses": ["A_"]}]},
        },
        updates={
            "another type": {"addressType": "IPv6"},
            "another address": _slice(addresses=["10.1.1.2"]),
        },
    ),
    "endpoints": Kind(
        "/api/v1/namespaces/contract/endpoints",
        {"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}]},
        creates={
            "no subsets": {"subsets": None},
            "an empty subset": {"subsets": [{}]},
            "an odd address": {"subsets": [{"addresses": [{"ip": "10.1.1", "hostname": "A_", "nodeName": "N_"}]}]},
            "a loopback": {"subsets": [{"addresses": [{"ip": "127.0.0.1"}]}]},
            "an odd port": {"subsets": [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 0, "protocol": "X"}]}]},
            "ports without names": {
                "subsets": [{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 1}, {"port": 2, "name": "A_"}]}]
            },
        },
        updates={"another address": {"subsets": [{"addresses": [{"ip": "10.1.1.2"}]}]}},
    ),
}
