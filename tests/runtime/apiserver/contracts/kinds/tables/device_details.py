"""ResourceClaims, DeviceClasses and ResourceSlices in detail: limits, and fields of single features."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table, laid_over

ROOT = "/apis/resource.k8s.io/v1"
TIME = "2026-01-01T00:00:00Z"
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
SUB = {"name": "s", "deviceClassName": "gpu"}
CONFIG = {"opaque": {"driver": "a.b", "parameters": {"c": 1}}}
SELECTOR = {"cel": {"expression": "true"}}
TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}


def _claim(*requests: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"spec": {"devices": {"requests": list(requests or (REQUEST,)), **fields}}}


def _exactly(**fields: Any) -> dict[str, Any]:
    return _claim(laid_over(REQUEST, {"exactly": fields}))


def _sub(**fields: Any) -> dict[str, Any]:
    return _claim({"name": "r", "firstAvailable": [laid_over(SUB, fields)]})


DEMANDS: dict[str, Any] = {
    "32 requests": _claim(*({**REQUEST, "name": f"r{i}"} for i in range(32))),
    "33 requests": _claim(*({**REQUEST, "name": f"r{i}"} for i in range(33))),
    "a long name": _claim({**REQUEST, "name": "r" * 64}),
    "a long class": _exactly(deviceClassName="g" * 254),
    "32 selectors": _exactly(selectors=[SELECTOR] * 32),
    "33 selectors": _exactly(selectors=[SELECTOR] * 33),
    "no expression": _exactly(selectors=[{"cel": {"expression": ""}}]),
    "an expression without a boolean": _exactly(selectors=[{"cel": {"expression": "1"}}]),
    "an unknown variable": _exactly(selectors=[{"cel": {"expression": "dev.driver == 'a'"}}]),
    "an attribute": _exactly(selectors=[{"cel": {"expression": "device.attributes['a.b'].c == 'd'"}}]),
    "a capacity": _exactly(
        selectors=[{"cel": {"expression": "device.capacity['a.b'].m.isGreaterThan(quantity('1Gi'))"}}]
    ),
    "a long expression": _exactly(selectors=[{"cel": {"expression": f"'{'a' * 10_240}' == ''"}}]),
    "admin access": _exactly(adminAccess=True),
    "count 0": _exactly(count=0),
    "no mode and a count": _exactly(allocationMode="", count=3),
    "a quantity": _exactly(capacity={"requests": {"memory": "1Gi"}}),
    "an odd quantity": _exactly(capacity={"requests": {"a b": "1Gi", "c.d/m": "-1"}}),
    "16 tolerations": _exactly(tolerations=[{"key": f"k{i}", "operator": "Exists"} for i in range(16)]),
    "17 tolerations": _exactly(tolerations=[{"key": f"k{i}", "operator": "Exists"} for i in range(17)]),
    "tolerates for a while": _exactly(
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    ),
    "tolerates NoSchedule for a while": _exactly(
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 60}]
    ),
    "a value that exists": _exactly(tolerations=[{"key": "a", "operator": "Exists", "value": "v"}]),
    "an odd value": _exactly(tolerations=[{"key": "a", "operator": "Equal", "value": "a b"}]),
    "no operator": _exactly(tolerations=[{"key": "a", "value": "b"}]),
    "equal without a key": _exactly(tolerations=[{"operator": "Equal", "value": "b"}]),
    "8 alternatives": _claim({"name": "r", "firstAvailable": [{**SUB, "name": f"s{i}"} for i in range(8)]}),
    "9 alternatives": _claim({"name": "r", "firstAvailable": [{**SUB, "name": f"s{i}"} for i in range(9)]}),
    "an alternative twice": _claim({"name": "r", "firstAvailable": [SUB, SUB]}),
    "an odd alternative": _sub(name="S_", deviceClassName="G_", count=-1, allocationMode="Odd"),
    "an alternative without names": _sub(name=None, deviceClassName=None),
    "an alternative for all": _sub(allocationMode="All", count=2),
    "an alternative with a selector": _sub(selectors=[{"cel": {"expression": "1 +"}}], tolerations=[{"effect": "X"}]),
    "a constraint of an alternative": _claim(
        {"name": "r", "firstAvailable": [SUB]}, constraints=[{"requests": ["r/s", "r"], "matchAttribute": "a.b/c"}]
    ),
    "a constraint of an unknown alternative": _claim(
        {"name": "r", "firstAvailable": [SUB]}, constraints=[{"requests": ["r/t"], "matchAttribute": "a.b/c"}]
    ),
    "32 constraints": _claim(constraints=[{"matchAttribute": f"a.b/c{i}"} for i in range(32)]),
    "33 constraints": _claim(constraints=[{"matchAttribute": f"a.b/c{i}"} for i in range(33)]),
    "a request twice": _claim(constraints=[{"requests": ["r", "r"], "matchAttribute": "a.b/c"}]),
    "distinct": _claim(constraints=[{"distinctAttribute": "a.b/c"}]),
    "oddly distinct": _claim(constraints=[{"distinctAttribute": "c"}, {"distinctAttribute": "A_/c d"}]),
    "both constraints": _claim(constraints=[{"matchAttribute": "a.b/c", "distinctAttribute": "a.b/d"}]),
    "odd attributes": _claim(constraints=[{"matchAttribute": "a b/c"}, {"matchAttribute": "a.b/"}]),
    "32 configurations": _claim(config=[CONFIG] * 32),
    "33 configurations": _claim(config=[CONFIG] * 33),
    "no parameters": _claim(config=[{"opaque": {"driver": "a.b"}}]),
    "a list of parameters": _claim(config=[{"opaque": {"driver": "a.b", "parameters": []}}]),
    "no driver": _claim(config=[{"opaque": {"parameters": {"c": 1}}}]),
    "many parameters": _claim(config=[{"opaque": {"driver": "a.b", "parameters": {"c": "x" * 10_240}}}]),
    "a request of a configuration twice": _claim(config=[{**CONFIG, "requests": ["r", "r"]}]),
}
DEVICE = {"driver": "a.b", "pool": "p", "device": "d"}
RESULT = {"request": "r", **DEVICE}
CONSUMER = {"resource": "pods", "name": "p", "uid": "u"}
CONDITION = {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": TIME}


def _allocated(*results: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"allocation": {"devices": {"results": list(results or (RESULT,))}, **fields}}


def _state(*results: dict[str, Any], reserved: Any = None, devices: Any = None, **fields: Any) -> dict[str, Any]:
    status = {**_allocated(*results, **fields), "reservedFor": reserved, "devices": devices}
    return {"status": {name: value for name, value in status.items() if value is not None}}


def _device_state(**fields: Any) -> dict[str, Any]:
    return _state(devices=[{**DEVICE, **fields}])


STATES: dict[str, Any] = {
    "nothing": {},
    "reserved": _state(reserved=[CONSUMER]),
    "reserved twice": _state(reserved=[CONSUMER, CONSUMER]),
    "reserved by two": _state(reserved=[CONSUMER, {**CONSUMER, "uid": "v"}]),
    "oddly reserved": _state(reserved=[{}, {"resource": "pods", "name": "p"}]),
    "reserved by many": _state(reserved=[{**CONSUMER, "uid": f"u{i}"} for i in range(257)]),
    "reserved by a group": _state(reserved=[{**CONSUMER, "apiGroup": "a.b"}]),
    "32 results": _state(*({**RESULT, "device": f"d{i}"} for i in range(32))),
    "33 results": _state(*({**RESULT, "device": f"d{i}"} for i in range(33))),
    "a result twice": _state(RESULT, RESULT),
    "no names": _state({}),
    "an empty pool": _state({**RESULT, "pool": ""}),
    "a path of pools": _state({**RESULT, "pool": "p/q//"}),
    "an alternative": _state({**RESULT, "request": "r/s"}),
    "a node": _state(nodeSelector={"nodeSelectorTerms": [TERM]}),
    "an odd node": _state(nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [{"key": "a b"}]}]}),
    "no terms": _state(nodeSelector={"nodeSelectorTerms": []}),
    "two terms": _state(nodeSelector={"nodeSelectorTerms": [TERM, TERM]}),
    "a time": _state(allocationTimestamp=TIME),
    "admin access": _state({**RESULT, "adminAccess": True}),
    "tolerations": _state({**RESULT, "tolerations": [{"key": "a", "operator": "Exists"}]}),
    "odd tolerations": _state({**RESULT, "tolerations": [{"key": "a b", "operator": "Near"}]}),
    "a share": _state({**RESULT, "shareID": "a3bb189e-8bf9-3888-9912-ace4e6543002"}),
    "an odd share": _state({**RESULT, "shareID": "a b"}),
    "consumed capacity": _state({**RESULT, "consumedCapacity": {"memory": "1Gi"}}),
    "binding": _state({**RESULT, "bindingConditions": ["a"], "bindingFailureConditions": ["b"]}),
    "odd binding": _state({**RESULT, "bindingConditions": ["a b", "c", "c"], "bindingFailureConditions": [""]}),
    "configuration": {
        "status": laid_over(
            _allocated(),
            {"allocation": {"devices": {"config": [{"source": "FromClass", "requests": ["r"], **CONFIG}]}}},
        )
    },
    "odd configuration": {
        "status": laid_over(
            _allocated(), {"allocation": {"devices": {"config": [{"source": "Odd", "requests": ["x"]}, {**CONFIG}]}}}
        )
    },
    "no devices": _state(devices=[]),
    "a device": _device_state(conditions=[CONDITION]),
    "a device twice": _state(devices=[DEVICE, DEVICE]),
    "another device": _device_state(device="e"),
    "odd device": _device_state(driver="A_", pool="P_", device="D_"),
    "odd conditions": _device_state(conditions=[{**CONDITION, "type": "a b", "status": "Maybe", "reason": ""}]),
    "8 conditions": _device_state(conditions=[{**CONDITION, "type": f"C{i}"} for i in range(8)]),
    "9 conditions": _device_state(conditions=[{**CONDITION, "type": f"C{i}"} for i in range(9)]),
    "data": _device_state(data={"a": "b"}),
    "odd data": _device_state(data=[]),
    "a network": _device_state(
        networkData={"interfaceName": "net1", "ips": ["10.9.8.0/24", "2001:db8::1/64"], "hardwareAddress": "ea:9f"}
    ),
    "odd addresses": _device_state(networkData={"ips": ["300.9.8.0/24", "010.009.008.001/24", "2001:0db8::1/64"]}),
    "an address twice": _device_state(networkData={"ips": ["10.9.8.0/24", "10.9.8.0/24"]}),
    "17 addresses": _device_state(networkData={"ips": [f"10.9.8.{i}/24" for i in range(17)]}),
    "long names": _device_state(networkData={"interfaceName": "n" * 257, "hardwareAddress": "a" * 129}),
}


def _slice(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _device(**fields: Any) -> dict[str, Any]:
    return _slice(devices=[{"name": "d", **fields}])


COUNTERS = {"name": "c", "counters": {"memory": {"value": "4Gi"}}}
USES = {"counterSet": "c", "counters": {"memory": {"value": "1Gi"}}}
RANGE = {"min": "1Gi", "max": "4Gi", "step": "1Gi"}


def _capacity(**policy: Any) -> dict[str, Any]:
    return _device(allowMultipleAllocations=True, capacity={"memory": {"value": "4Gi", "requestPolicy": policy}})


TABLE: Table = {
    "demanding claims": Kind(
        f"{ROOT}/namespaces/contract/resourceclaims", {"metadata": {"name": "c"}, **_claim()}, creates=DEMANDS
    ),
    "demanding templates": Kind(
        f"{ROOT}/namespaces/contract/resourceclaimtemplates",
        {"metadata": {"name": "t"}, "spec": {"spec": _claim()["spec"]}},
        creates={
            **{label: {"spec": {"spec": overlay["spec"]}} for label, overlay in DEMANDS.items()},
            "labels": {"spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}},
            "odd labels": {"spec": {"metadata": {"labels": {"a b": "c d"}, "annotations": {"-": ""}}}},
            "a name for the claim": {"spec": {"metadata": {"name": "n", "finalizers": ["a/b"]}}},
        },
        updates={"a label": {"metadata": {"labels": {"a": "b"}}}, "labels": {"spec": {"metadata": {"labels": {}}}}},
    ),
    "claim states": Kind(
        f"{ROOT}/namespaces/contract/resourceclaims", {"metadata": {"name": "c"}, **_claim()}, statuses=STATES
    ),
    "detailed classes": Kind(
        f"{ROOT}/deviceclasses",
        {"metadata": {"name": "gpu"}, "spec": {}},
        creates={
            "32 selectors": _slice(selectors=[SELECTOR] * 32),
            "33 selectors": _slice(selectors=[SELECTOR] * 33),
            "an odd selector": _slice(selectors=[{"cel": {"expression": "device.driver"}}]),
            "a long expression": _slice(selectors=[{"cel": {"expression": f"'{'a' * 10_240}' == ''"}}]),
            "32 configurations": _slice(config=[CONFIG] * 32),
            "33 configurations": _slice(config=[CONFIG] * 33),
            "no parameters": _slice(config=[{"opaque": {"driver": "a.b"}}]),
            "a list of parameters": _slice(config=[{"opaque": {"driver": "a.b", "parameters": []}}]),
            "an empty resource": _slice(extendedResourceName=""),
            "a resource of the system": _slice(extendedResourceName="kubernetes.io/gpu"),
            "a quota's resource": _slice(extendedResourceName="requests.example.com/gpu"),
            "a long resource": _slice(extendedResourceName=f"example.com/{'g' * 70}"),
        },
        updates={
            "a resource": _slice(extendedResourceName="example.com/gpu"),
            "an odd resource": _slice(extendedResourceName="gpu"),
            "a selector": _slice(selectors=[SELECTOR]),
            "an odd selector": _slice(selectors=[{"cel": {"expression": "1 +"}}]),
            "no version": {"metadata": {"resourceVersion": None}},
        },
    ),
    "detailed slices": Kind(
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
            "no devices": _slice(devices=None),
            "128 devices": _slice(devices=[{"name": f"d{i}"} for i in range(128)]),
            "a long driver": _slice(driver="a" * 64),
            "a long name": _slice(devices=[{"name": "d" * 64}]),
            "all attributes": _device(
                attributes={
                    "a": {"bool": True},
                    "b": {"int": 1},
                    "c": {"string": "x" * 64},
                    "d": {"version": "1.2.3-rc.1+build"},
                }
            ),
            "lists of attributes": _device(
                attributes={
                    "a": {"bools": [True]},
                    "b": {"ints": [1, 2]},
                    "c": {"strings": ["x"]},
                    "d": {"versions": []},
                }
            ),
            "long attributes": _device(attributes={"c": {"string": "x" * 65}, "d": {"version": f"1.2.3-{'a' * 65}"}}),
            "odd names of attributes": _device(
                attributes={
                    "": {"int": 1},
                    "A_/b": {"int": 1},
                    "c.d/": {"int": 1},
                    "e" * 33: {"int": 1},
                    "a/b/c": {"int": 1},
                }
            ),
            "32 attributes and capacities": _device(
                attributes={f"a{i}": {"int": 1} for i in range(16)},
                capacity={f"c{i}": {"value": "1"} for i in range(16)},
            ),
            "33 attributes and capacities": _device(
                attributes={f"a{i}": {"int": 1} for i in range(17)},
                capacity={f"c{i}": {"value": "1"} for i in range(16)},
            ),
            "a policy": _capacity(default="1Gi", validRange=RANGE),
            "a policy of values": _capacity(default="1Gi", validValues=["1Gi", "2Gi"]),
            "an empty policy": _capacity(),
            "no default": _capacity(validRange=RANGE),
            "another default": _capacity(default="5Gi", validValues=["1Gi", "2Gi"]),
            "a default beyond the range": _capacity(default="5Gi", validRange=RANGE),
            "unsorted values": _capacity(default="1Gi", validValues=["2Gi", "1Gi", "1Gi"]),
            "both policies": _capacity(default="1Gi", validRange=RANGE, validValues=["1Gi"]),
            "an odd range": _capacity(default="1Gi", validRange={"min": "3Gi", "max": "2Gi", "step": "2Gi"}),
            "a range without a minimum": _capacity(default="1Gi", validRange={"max": "2Gi"}),
            "a policy of one allocation": _device(
                capacity={"m": {"value": "4Gi", "requestPolicy": {"default": "1Gi"}}}
            ),
            "counters": _slice(devices=None, sharedCounters=[COUNTERS]),
            "counters and devices": _slice(sharedCounters=[COUNTERS]),
            "counters twice": _slice(devices=None, sharedCounters=[COUNTERS, COUNTERS]),
            "odd counters": _slice(
                devices=None, sharedCounters=[{"name": "C_", "counters": {"M_": {"value": "1"}}}, {}]
            ),
            "8 counter sets": _slice(devices=None, sharedCounters=[{**COUNTERS, "name": f"c{i}"} for i in range(8)]),
            "9 counter sets": _slice(devices=None, sharedCounters=[{**COUNTERS, "name": f"c{i}"} for i in range(9)]),
            "33 counters": _slice(
                devices=None, sharedCounters=[{"name": "c", "counters": {f"m{i}": {"value": "1"} for i in range(33)}}]
            ),
            "uses counters": _device(consumesCounters=[USES]),
            "uses counters twice": _device(consumesCounters=[USES, USES]),
            "oddly uses counters": _device(
                consumesCounters=[{}, {"counterSet": "C_", "counters": {"M_": {"value": "1"}}}]
            ),
            "uses 3 sets": _device(consumesCounters=[{**USES, "counterSet": f"c{i}"} for i in range(3)]),
            "devices of nodes": {
                "spec": {"nodeName": None, "perDeviceNodeSelection": True, "devices": [{"name": "d", "nodeName": "n"}]}
            },
            "devices of no nodes": {"spec": {"nodeName": None, "perDeviceNodeSelection": True}},
            "devices of odd nodes": {
                "spec": {
                    "nodeName": None,
                    "perDeviceNodeSelection": True,
                    "devices": [{"name": "d", "nodeName": "N_"}, {"name": "e", "nodeName": "n", "allNodes": True}],
                }
            },
            "a device of a node": _device(nodeName="n"),
            "per device and node": _slice(perDeviceNodeSelection=True),
            "an odd selector": {
                "spec": {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": [TERM, {"matchExpressions": [{}]}]}}
            },
            "binding": _device(bindsToNode=True, bindingConditions=["a"], bindingFailureConditions=["b"]),
            "odd binding": _device(bindingConditions=["a b"], bindingFailureConditions=["a b"]),
            "binding without failures": _device(bindingConditions=["a"]),
            "the same binding": _device(bindingConditions=["a"], bindingFailureConditions=["a"]),
            "5 bindings": _device(
                bindingConditions=[f"a{i}" for i in range(5)], bindingFailureConditions=[f"b{i}" for i in range(5)]
            ),
        },
        updates={
            "a selector": _slice(nodeName=None, nodeSelector={"nodeSelectorTerms": [TERM]}),
            "everywhere": _slice(nodeName=None, allNodes=True),
            "another generation": _slice(pool={"generation": 2}),
            "an older generation": _slice(pool={"generation": 0}),
            "an odd device": _device(attributes={"a b": {"int": 1}}),
            "no version": {"metadata": {"resourceVersion": None}},
        },
    ),
}
