"""VolumeAttachments, CSIDrivers, CSINodes and VolumeAttributesClasses in detail."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

ROOT = "/apis/storage.k8s.io/v1"
TIME = "2026-01-01T00:00:00Z"
INLINE = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "example.com", "volumeHandle": "h"}}


def _source(**fields: Any) -> dict[str, Any]:
    return {"spec": {"source": fields}}


def _inline(**fields: Any) -> dict[str, Any]:
    return _source(persistentVolumeName=None, inlineVolumeSpec={**INLINE, **fields})


def _status(**fields: Any) -> dict[str, Any]:
    return {"status": {"attached": False, **fields}}


def _error(**fields: Any) -> dict[str, Any]:
    return {"time": TIME, "message": "no", **fields}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _driver(**fields: Any) -> dict[str, Any]:
    return {"spec": {"drivers": [{"name": "example.com", "nodeID": "a", **fields}]}}


STATES: dict[str, Any] = {
    "nothing": {},
    "attached": _status(attached=True),
    "metadata": _status(attached=True, attachmentMetadata={"devicePath": "/dev/a", "": "x", "a b": ""}),
    "much metadata": _status(attached=True, attachmentMetadata={"a": "x" * 262_145}),
    "an attach error": _status(attachError=_error()),
    "a detach error": _status(attached=True, detachError=_error()),
    "two errors": _status(attachError=_error(), detachError=_error()),
    "an error with a code": _status(attachError=_error(errorCode=8)),
    "a negative code": _status(attachError=_error(errorCode=-1)),
    "a long error": _status(attachError=_error(message="x" * 262_145)),
    "an error without a time": _status(attachError={"message": "no"}),
    "an odd time": _status(attachError={"time": "yesterday", "message": "no"}),
    "a label": {"metadata": {"labels": {"a": "b"}}, **_status(attached=True)},
    "another attacher": {**_spec(attacher="example.org"), **_status(attached=True)},
    "no version": {"metadata": {"resourceVersion": None}, **_status(attached=True)},
}

TABLE: Table = {
    "attachment states": Kind(
        f"{ROOT}/volumeattachments",
        {
            "metadata": {"name": "va"},
            "spec": {"attacher": "example.com", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
        },
        creates={
            "a long attacher": _spec(attacher="a" * 64),
            "a large attacher": _spec(attacher="Example.Com"),
            "a long node": _spec(nodeName="n" * 254),
            "two sources": _source(inlineVolumeSpec=INLINE),
            "an inline volume": _inline(),
            "an inline volume without modes": _inline(accessModes=None),
            "an inline volume of odd modes": _inline(accessModes=["Odd"]),
            "an inline volume with capacity": _inline(capacity={"storage": "1Gi"}),
            "an inline volume with a claim": _inline(claimRef={"name": "c", "namespace": "n"}),
            "an inline volume with a policy": _inline(persistentVolumeReclaimPolicy="Retain"),
            "an inline volume with a class": _inline(storageClassName="fast"),
            "an inline volume of another kind": _inline(csi=None, hostPath={"path": "/a"}),
            "an inline volume without a source": _inline(csi=None),
            "an inline volume without names": _inline(csi={"driver": "", "volumeHandle": ""}),
            "an inline volume with options": _inline(mountOptions=["ro"], volumeMode="Block"),
            "an inline volume of a node": _inline(nodeAffinity={"required": {"nodeSelectorTerms": []}}),
        },
        updates={
            "another attacher": _spec(attacher="example.org"),
            "another volume": _source(persistentVolumeName="other"),
            "an inline volume": _inline(),
            "a finalizer": {"metadata": {"finalizers": ["example.com/a"]}},
            "an odd finalizer": {"metadata": {"finalizers": ["a b"]}},
        },
        statuses=STATES,
    ),
    "inline attachments": Kind(
        f"{ROOT}/volumeattachments",
        {
            "metadata": {"name": "inline"},
            "spec": {"attacher": "example.com", "nodeName": "n1", "source": {"inlineVolumeSpec": INLINE}},
        },
        updates={"another handle": _inline(csi={"driver": "example.com", "volumeHandle": "i"})},
        statuses={"attached": _status(attached=True)},
    ),
    "driver details": Kind(
        f"{ROOT}/csidrivers",
        {"metadata": {"name": "example.com"}, "spec": {}},
        creates={
            "a long name": {"metadata": {"name": "a" * 64}},
            "a large name": {"metadata": {"name": "Example.Com"}},
            "no mode": _spec(volumeLifecycleModes=[]),
            "a mode twice": _spec(volumeLifecycleModes=["Persistent", "Persistent"]),
            "an empty policy": _spec(fsGroupPolicy=""),
            "no policy of groups": _spec(fsGroupPolicy="None"),
            "a token": _spec(tokenRequests=[{"audience": ""}]),
            "a long token": _spec(tokenRequests=[{"audience": "a", "expirationSeconds": 4_294_967_297}]),
            "tokens in secrets": _spec(serviceAccountTokenInSecrets=True),
            "tokens in secrets for an audience": _spec(
                serviceAccountTokenInSecrets=True, tokenRequests=[{"audience": "a"}]
            ),
            "tokens elsewhere": _spec(serviceAccountTokenInSecrets=False, tokenRequests=[{"audience": "a"}]),
            "an update each 10 s": _spec(nodeAllocatableUpdatePeriodSeconds=10),
            "an update each 9 s": _spec(nodeAllocatableUpdatePeriodSeconds=9),
            "a negative period": _spec(nodeAllocatableUpdatePeriodSeconds=-1),
            "no pods without it": _spec(preventPodSchedulingIfMissing=True),
        },
        updates={
            "SELinux": _spec(seLinuxMount=True),
            "publishing": _spec(requiresRepublish=True),
            "tokens": _spec(tokenRequests=[{"audience": "a"}]),
            "odd tokens": _spec(tokenRequests=[{"audience": "a"}, {"audience": "a", "expirationSeconds": 1}]),
            "a period": _spec(nodeAllocatableUpdatePeriodSeconds=60),
            "an odd period": _spec(nodeAllocatableUpdatePeriodSeconds=1),
            "tokens in secrets": _spec(serviceAccountTokenInSecrets=True),
            "no pods without it": _spec(preventPodSchedulingIfMissing=True),
            "an unknown policy": _spec(fsGroupPolicy="Maybe"),
            "no version": {"metadata": {"resourceVersion": None}},
        },
    ),
    "node details": Kind(
        f"{ROOT}/csinodes",
        {"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "example.com", "nodeID": "a"}]}},
        creates={
            "an odd name": _driver(name="E_"),
            "a long name": _driver(name="e" * 64),
            "a large name": _driver(name="Example.Com"),
            "an empty node": _driver(nodeID=""),
            "193 bytes": _driver(nodeID="a" * 193),
            "257 bytes": _driver(nodeID="a" * 257),
            "no limit": _driver(allocatable={}),
            "limit 0": _driver(allocatable={"count": 0}),
            "keys": _driver(topologyKeys=["example.com/zone", "rack"]),
            "a key twice": _driver(topologyKeys=["rack", "rack"]),
            "an odd key": _driver(topologyKeys=["a b"]),
            "the name of the node": {"metadata": {"name": "N_"}},
        },
        updates={
            "a limit": _driver(allocatable={"count": 5}),
            "an odd limit": _driver(allocatable={"count": -5}),
            "keys": _driver(topologyKeys=["rack"]),
            "another driver": _driver(name="example.org"),
            "another driver with a limit": _driver(name="example.org", allocatable={"count": -1}),
            "no version": {"metadata": {"resourceVersion": None}},
        },
    ),
    "attributes": Kind(
        f"{ROOT}/volumeattributesclasses",
        {"metadata": {"name": "gold"}, "driverName": "example.com", "parameters": {"iops": "500"}},
        creates={
            "an odd name": {"metadata": {"name": "G_"}},
            "an empty driver": {"driverName": ""},
            "a long driver": {"driverName": "a" * 64},
            "512 parameters": {"parameters": {f"p{i}": "v" for i in range(511)}},
            "513 parameters": {"parameters": {f"p{i}": "v" for i in range(512)}},
            "long parameters": {"parameters": {"a": "x" * 262_145}},
            "an empty parameter": {"parameters": {"a": ""}},
        },
        updates={
            "no parameters": {"parameters": None},
            "a finalizer": {"metadata": {"finalizers": ["kubernetes.io/vac-protection"]}},
            "no version": {"metadata": {"resourceVersion": None}},
        },
    ),
}
