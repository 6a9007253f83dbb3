"""Kinds about the versions of stored objects, which are not served by default."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

TIME = "2026-01-01T00:00:00Z"


def _resource(**fields: Any) -> dict[str, Any]:
    return {"spec": {"resource": fields}}


def _condition(type_: str = "Running", **fields: Any) -> dict[str, Any]:
    condition = {"type": type_, "status": "True", "reason": "Tested", "lastTransitionTime": TIME, "message": ""}
    return {**condition, **fields}


def _status(*conditions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"status": {"conditions": list(conditions), **fields}}


def _server(name: str = "a", version: str = "v1", *decodable: str, **fields: Any) -> dict[str, Any]:
    return {
        "apiServerID": name,
        "encodingVersion": version,
        "decodableVersions": list(decodable) or [version],
        **fields,
    }


def _servers(*servers: dict[str, Any], common: str | None = None, **fields: Any) -> dict[str, Any]:
    status = {"storageVersions": list(servers), "commonEncodingVersion": common, **fields}
    return {"status": {name: value for name, value in status.items() if value is not None}}


def _known(type_: str = "AllEncodingVersionsEqual", **fields: Any) -> dict[str, Any]:
    return {"type": type_, "status": "True", "reason": "R", "message": "m", **fields}


TABLE: Table = {
    "storageversionmigrations": Kind(
        "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations",
        {"metadata": {"name": "m"}, "spec": {"resource": {"group": "apps", "resource": "deployments"}}},
        creates={
            "nothing": {"spec": None},
            "an odd name": {"metadata": {"name": "M_"}},
            "no resource": _resource(resource=None),
            "the core group": _resource(group=None, resource="pods"),
            "an odd resource": _resource(resource="1Pods_"),
            "an odd group": _resource(group="A_"),
            "a status": _status(_condition(), resourceVersion="5"),
        },
        updates={
            "nothing": {},
            "another resource": _resource(resource="daemonsets"),
            "a core resource": _resource(group=None, resource="pods"),
            "an odd resource": _resource(resource="1Pods_"),
            "no resource version": {"metadata": {"resourceVersion": None}},
            "a status": _status(_condition(), resourceVersion="5"),
        },
        statuses={
            "a condition": _status(_condition(), resourceVersion="5"),
            "an odd condition": _status(_condition("a b", status="Maybe", reason="", lastTransitionTime=None)),
            "zero": _status(resourceVersion="0"),
            "words": _status(resourceVersion="five"),
            "leading zeros": _status(resourceVersion="05"),
            "both": _status(_condition("Succeeded"), _condition("Failed")),
            "one of them": _status(_condition("Succeeded"), _condition("Failed", status="False")),
        },
    ),
    "storageversions": Kind(
        "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions",
        {"metadata": {"name": "example.com.things"}, "spec": {}},
        creates={
            "nothing": {"spec": None},
            "no dot": {"metadata": {"name": "things"}},
            "odd segments": {"metadata": {"name": "E_.1Things"}},
            "a status": _servers(_server()),
        },
        updates={
            "nothing": {},
            "no resource version": {"metadata": {"resourceVersion": None}},
            "a status": _servers(_server()),
        },
        statuses={
            "nothing": {},
            "one server": _servers(_server(), common="v1"),
            "two servers": _servers(_server(), _server("b"), common="v1", conditions=[_known()]),
            "two versions": _servers(_server(), _server("b", "v2")),
            "no common version": _servers(_server()),
            "a common version of none": _servers(common="v1"),
            "a common version of two": _servers(_server(), _server("b", "v2"), common="v1"),
            "another common version": _servers(_server(), common="v2"),
            "twice the same server": _servers(_server(), _server(), common="v1"),
            "an odd server": _servers(_server("A_"), common="v1"),
            "no versions": _servers(_server("a", ""), common=""),
            "a group": _servers(_server("a", "apps/v1"), common="apps/v1"),
            "an empty group": _servers(_server("a", "/v1"), common="/v1"),
            "odd versions": _servers(_server("a", "A_/1"), common="A_/1"),
            "too many parts": _servers(_server("a", "a/b/c"), common="a/b/c"),
            "encoding is not decodable": _servers(_server("a", "v1", "v2"), common="v1"),
            "served": _servers(_server("a", "v1", "v1", "v2", servedVersions=["v2"]), common="v1"),
            "served is not decodable": _servers(_server("a", "v1", "v1", "v2", servedVersions=["v3"]), common="v1"),
            "odd conditions": _servers(conditions=[_known("a b", status="", reason="", message="")]),
            "twice the same condition": _servers(conditions=[_known(), _known()]),
        },
    ),
}
