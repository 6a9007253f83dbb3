"""Objects of resource.k8s.io."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

ROOT = "/apis/resource.k8s.io/v1"
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _exactly(**fields: Any) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **fields}}]}}


def _device(**fields: Any) -> dict[str, Any]:
    return {"spec": {"devices": [{"name": "d", **fields}]}}


CLAIMS: dict[str, Any] = {
    "nothing": {},
    "no name": {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu"}}]}},
    "an odd name": {"devices": {"requests": [{**REQUEST, "name": "R_"}]}},
    "a name twice": {"devices": {"requests": [REQUEST, REQUEST]}},
    "no request": {"devices": {"requests": [{"name": "r"}]}},
    "no class": {"devices": {"requests": [{"name": "r", "exactly": {}}]}},
    "an odd class": _exactly(deviceClassName="G_"),
    "a count": _exactly(count=2),
    "a negative count": _exactly(count=-1),
    "all": _exactly(allocationMode="All"),
    "all and a count": _exactly(allocationMode="All", count=2),
    "an unknown mode": _exactly(allocationMode="Odd"),
    "a selector": _exactly(selectors=[{"cel": {"expression": "true"}}]),
    "a selector of nothing": _exactly(selectors=[{}]),
    "an odd selector": _exactly(selectors=[{"cel": {"expression": "1 +"}}]),
    "a toleration": _exactly(tolerations=[{"operator": "Exists"}]),
    "odd tolerations": _exactly(tolerations=[{"key": "a b", "operator": "Near", "effect": "Never"}]),
    "one of several": {
        "devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}]}
    },
    "both": {"devices": {"requests": [{**REQUEST, "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}]}},
    "a constraint": {"devices": {"requests": [REQUEST], "constraints": [{"matchAttribute": "a.b/c"}]}},
    "odd constraints": {
        "devices": {"requests": [REQUEST], "constraints": [{"requests": ["x"], "matchAttribute": "a"}, {}]}
    },
    "configuration": {
        "devices": {"requests": [REQUEST], "config": [{"opaque": {"driver": "a.b", "parameters": {"c": 1}}}]}
    },
    "odd configuration": {
        "devices": {"requests": [REQUEST], "config": [{"requests": ["x"]}, {"opaque": {"driver": "A_"}}]}
    },
}

TABLE: Table = {
    "deviceclasses": Kind(
        f"{ROOT}/deviceclasses",
        {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'a.b'"}}]}},
        creates={
            "nothing": {"spec": None},
            "a bad name": {"metadata": {"name": "G_"}},
            "a selector of nothing": _spec(selectors=[{}]),
            "no expression": _spec(selectors=[{"cel": {"expression": ""}}]),
            "configuration": _spec(config=[{"opaque": {"driver": "a.b", "parameters": {"c": 1}}}]),
            "configuration of nothing": _spec(config=[{}]),
            "odd configuration": _spec(config=[{"opaque": {"driver": "A_"}}]),
            "a resource": _spec(extendedResourceName="example.com/gpu"),
            "an odd resource": _spec(extendedResourceName="gpu"),
        },
        updates={"another": _spec(selectors=None), "an odd one": _spec(selectors=[{}])},
    ),
    "resourceclaims": Kind(
        f"{ROOT}/namespaces/contract/resourceclaims",
        {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [REQUEST]}}},
        creates={label: {"spec": spec or None} for label, spec in CLAIMS.items()},
        updates={
            "another class": {"spec": _exactly(deviceClassName="fpga")},
            "a label": {"metadata": {"labels": {"a": "b"}}},
        },
        statuses={
            "allocated": {
                "status": {
                    "allocation": {
                        "devices": {"results": [{"request": "r", "driver": "a.b", "pool": "p", "device": "d"}]}
                    }
                }
            },
            "oddly allocated": {
                "status": {
                    "allocation": {
                        "devices": {"results": [{"request": "x", "driver": "A_", "pool": "P_", "device": "D_"}]}
                    }
                }
            },
            "reserved without an allocation": {
                "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
            },
        },
    ),
    "resourceclaimtemplates": Kind(
        f"{ROOT}/namespaces/contract/resourceclaimtemplates",
        {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [REQUEST]}}}},
        creates={label: {"spec": {"spec": spec or None}} for label, spec in CLAIMS.items()},
        updates={"another class": {"spec": {"spec": _exactly(deviceClassName="fpga")}}},
    ),
    "resourceslices": Kind(
        f"{ROOT}/resourceslices",
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "a.b",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n",
                "devices": [{"name": "d"}],
            },
        },
        creates={
            "nothing": {"spec": None},
            "no driver": _spec(driver=None),
            "an odd driver": _spec(driver="A_"),
            "no pool": _spec(pool=None),
            "an odd pool": _spec(pool={"name": "P_", "generation": -1, "resourceSliceCount": 0}),
            "nowhere": _spec(nodeName=None),
            "everywhere and there": _spec(allNodes=True),
            "everywhere": _spec(nodeName=None, allNodes=True),
            "not everywhere": _spec(nodeName=None, allNodes=False),
            "an odd node": _spec(nodeName="N_"),
            "a selector": _spec(
                nodeName=None,
                nodeSelector={
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                },
            ),
            "an odd device": _device(name="D_"),
            "a device twice": _spec(devices=[{"name": "d"}, {"name": "d"}]),
            "attributes": _device(attributes={"a": {"string": "b"}, "c.d/e": {"int": 1}, "v": {"version": "1.2.3"}}),
            "odd attributes": _device(attributes={"a b": {}, "c": {"string": "b", "int": 1}, "v": {"version": "x"}}),
            "capacity": _device(capacity={"memory": {"value": "1Gi"}}),
            "a taint": _device(taints=[{"key": "a", "effect": "NoSchedule"}]),
            "odd taints": _device(taints=[{"key": "a b", "effect": "Never"}]),
            "many devices": _spec(devices=[{"name": f"d{i}"} for i in range(129)]),
        },
        updates={
            "another node": _spec(nodeName="m"),
            "another driver": _spec(driver="c.d"),
            "another pool": _spec(pool={"name": "q"}),
            "another device": _device(name="e"),
        },
    ),
}
