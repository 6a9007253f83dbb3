"""Objects of resource.k8s.io that are not served by default, and taints of devices."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

ROOT = "/apis/resource.k8s.io"
TIME = "2026-01-01T00:00:00Z"


def _taint(**fields: Any) -> dict[str, Any]:
    return {"spec": {"taint": fields}}


def _selector(**fields: Any) -> dict[str, Any]:
    return {"spec": {"deviceSelector": fields}}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _condition(**fields: Any) -> dict[str, Any]:
    return {"type": "Done", "status": "True", "reason": "Tested", "lastTransitionTime": TIME, "message": "", **fields}


def _conditions(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"conditions": list(conditions)}}


POOL = {"driver": "a.b", "poolName": "p", "generation": 1, "resourceSliceCount": 1}


def _pool(**fields: Any) -> dict[str, Any]:
    pool = {name: value for name, value in {**POOL, **fields}.items() if value is not None}
    return {"status": {"poolCount": 1, "pools": [pool]}}


TABLE: Table = {
    "devicetaintrules": Kind(
        f"{ROOT}/v1beta2/devicetaintrules",
        {
            "metadata": {"name": "r"},
            "spec": {"deviceSelector": {"driver": "a.b"}, "taint": {"key": "broken", "effect": "NoExecute"}},
        },
        creates={
            "nothing": {"spec": None},
            "an odd name": {"metadata": {"name": "R_"}},
            "no selector": _spec(deviceSelector=None),
            "an empty selector": _selector(driver=None),
            "a device": _selector(driver="a.b", pool="p/q", device="d"),
            "empty names": _selector(driver="", pool="", device=""),
            "odd names": _selector(driver="A_", pool="P_/q", device="D_"),
            "no taint": _spec(taint=None),
            "no key": _taint(key=None),
            "an odd key": _taint(key="a b"),
            "a value": _taint(value="v"),
            "an odd value": _taint(value="a b"),
            "no effect": _taint(effect=None),
            "another effect": _taint(effect="None"),
            "an odd effect": _taint(effect="Never"),
            "a time": _taint(timeAdded=TIME),
            "a status": _conditions(_condition()),
        },
        updates={
            "nothing": {},
            "another value": _taint(value="v"),
            "another effect": _taint(effect="None"),
            "an odd effect": _taint(effect="Never"),
            "another effect and time": _taint(effect="None", timeAdded=TIME),
            "no time": _taint(timeAdded=None),
            "another selector": _selector(driver="c.d"),
            "no resource version": {"metadata": {"resourceVersion": None}},
            "a status": _conditions(_condition()),
        },
        statuses={
            "a condition": _conditions(_condition()),
            "an odd condition": _conditions(_condition(type="a b", status="Maybe", reason="", lastTransitionTime=None)),
            "a condition twice": _conditions(_condition(), _condition()),
            "many conditions": _conditions(*(_condition(type=f"C{i}") for i in range(9))),
            "another spec": {**_taint(value="v"), **_conditions(_condition())},
        },
    ),
    "resourcepoolstatusrequests": Kind(
        f"{ROOT}/v1alpha3/resourcepoolstatusrequests",
        {"metadata": {"name": "r"}, "spec": {"driver": "a.b"}},
        creates={
            "nothing": {"spec": None},
            "an odd name": {"metadata": {"name": "R_"}},
            "no driver": _spec(driver=""),
            "a large driver": _spec(driver="A.B"),
            "an odd driver": _spec(driver="a b!"),
            "a long driver": _spec(driver="a" * 254),
            "a pool": _spec(poolName="p/q"),
            "an empty pool": _spec(poolName=""),
            "an odd pool": _spec(poolName="p//Q_"),
            "a long pool": _spec(poolName="p" * 254),
            "limit 1": _spec(limit=1),
            "limit 0": _spec(limit=0),
            "limit 1000": _spec(limit=1000),
            "limit 1001": _spec(limit=1001),
            "a status": _pool(),
        },
        updates={
            "nothing": {},
            "another driver": _spec(driver="c.d"),
            "a label": {"metadata": {"labels": {"a": "b"}}},
            "no resource version": {"metadata": {"resourceVersion": None}},
            "a status": _pool(),
        },
        statuses={
            "nothing": {},
            "an empty status": {"status": {}},
            "a pool": _pool(totalDevices=4, allocatedDevices=2, availableDevices=2, unavailableDevices=0, nodeName="n"),
            "no names": _pool(driver=None, poolName=None),
            "odd names": _pool(driver="a b!", poolName="P_", nodeName="N_"),
            "no generation": _pool(generation=None),
            "negative numbers": _pool(
                generation=-1, totalDevices=-1, allocatedDevices=-1, availableDevices=-1, unavailableDevices=-1
            ),
            "no slices": _pool(resourceSliceCount=0),
            "an error": _pool(validationError="x" * 256),
            "a long error": _pool(validationError="x" * 257),
            "a negative count": {"status": {"poolCount": -1}},
            "many pools": {"status": {"poolCount": 1, "pools": [POOL] * 1001}},
            "a condition": {"status": {"poolCount": 0, "conditions": [_condition()]}},
            "a condition twice": {"status": {"poolCount": 0, "conditions": [_condition(), _condition()]}},
            "many conditions": {
                "status": {"poolCount": 0, "conditions": [_condition(type=f"C{i}") for i in range(11)]}
            },
        },
    ),
    "tainted slices": Kind(
        f"{ROOT}/v1/resourceslices",
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "a.b",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n",
                "devices": [{"name": "d", "taints": [{"key": "broken", "effect": "NoExecute"}]}],
            },
        },
        creates={
            "a time": _spec(devices=[{"name": "d", "taints": [{"key": "a", "effect": "None", "timeAdded": TIME}]}]),
            "no key": _spec(devices=[{"name": "d", "taints": [{"effect": "NoExecute"}]}]),
            "no effect": _spec(devices=[{"name": "d", "taints": [{"key": "a"}]}]),
            "an odd value": _spec(devices=[{"name": "d", "taints": [{"key": "a", "value": "a b", "effect": "None"}]}]),
            "sixteen taints": _spec(
                devices=[{"name": "d", "taints": [{"key": f"k{i}", "effect": "None"} for i in range(16)]}]
            ),
            "seventeen taints": _spec(
                devices=[{"name": "d", "taints": [{"key": f"k{i}", "effect": "None"} for i in range(17)]}]
            ),
            "65 devices": _spec(
                devices=[{"name": f"d{i}", "taints": [{"key": "a", "effect": "None"}]} for i in range(65)]
            ),
        },
        updates={
            "nothing": {},
            "another taint": _spec(devices=[{"name": "d", "taints": [{"key": "other", "effect": "NoExecute"}]}]),
            "no taint": _spec(devices=[{"name": "d"}]),
        },
    ),
}
