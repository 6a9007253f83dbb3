"""Manifests are applied, or refused with one line that contains the place and the reason."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest

from kcm.actors.command.manifests import Manifest, ManifestError, apply, check_manifests, read_manifests
from kcm.protocols.objects import encode_object
from kcm.runtime.client.api import Request, Response

CONFIGMAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
LISTS = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: b}}
- apiVersion: v1
  kind: List
  items: [{apiVersion: v1, kind: Pod, metadata: {name: c}}]
"""


def read(tmp_path: Path, content: str | bytes) -> list[dict[str, Any]]:
    path = tmp_path / "manifest.yml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [manifest.obj for manifest in read_manifests(path)]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (CONFIGMAP, ["a"]),
        ("---\n---\n" + CONFIGMAP + "---\n" + CONFIGMAP, ["a", "a"]),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "json"}}', ["json"]),
        (
            LISTS,
            ["b", "c"],
        ),
    ],
)
def test_file_may_contain_objects_and_lists(tmp_path: Path, content: str, names: list[str]) -> None:
    assert [obj["metadata"]["name"] for obj in read(tmp_path, content)] == names


def test_keys_are_text_and_dates_stay_as_they_were_written(tmp_path: Path) -> None:
    (obj,) = read(tmp_path, CONFIGMAP + "data: {1: x, day: 2026-01-02, hour: 2026-01-02T03:04:05Z}\n")
    assert obj["data"] == {"1": "x", "day": "2026-01-02", "hour": "2026-01-02T03:04:05Z"}
    assert encode_object(obj)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "contains no objects"),
        ("# nothing\n---\n", "contains no objects"),
        ("apiVersion: v1\nkind: List\nitems:\n", "contains no objects"),
        ("a: b: c", "manifest.yml:1:5: not YAML: mapping values are not allowed in this context"),
        (b"\xff\xfe\x00", "manifest.yml: not YAML: "),
        ("? [a]\n: b\n", "manifest.yml: not YAML: yaml: invalid map key"),
        (CONFIGMAP + "a: [1,\n", "manifest.yml:5:1: not YAML: did not find expected node content"),
        (CONFIGMAP + "x: " + "[" * 1100, "manifest.yml: not YAML: "),
        ("- a\n", "manifest.yml:1: an object is a map, got list"),
        (CONFIGMAP + "---\nkind: Pod\n", "manifest.yml:5: apiVersion is missing"),
        ("apiVersion: v1\n", "manifest.yml:1: kind is missing"),
        ("apiVersion: v1\nkind: Pod\n", "metadata.name is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 12}\n", "metadata.name is not a string: 12"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: 12}\n", "metadata.namespace is not a string: 12"),
        ("apiVersion: v1\nkind: List\nitems: 7\n", "items is not a list"),
        ("apiVersion: v1\nkind: List\nitems: [{}]\n", "apiVersion is missing"),
        (CONFIGMAP + "x: &x [*x]\n", "manifest.yml: not YAML: yaml: anchor 'x' value contains itself"),
        (CONFIGMAP + "x: !!binary '!'\n", "manifest.yml: not YAML: yaml: !!binary value contains invalid base64 data"),
    ],
)
def test_invalid_manifest_is_reported_in_one_line(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    with pytest.raises(ManifestError) as error:
        read(tmp_path, content)
    text = str(error.value)
    assert complaint in text
    assert text.startswith(str(tmp_path))
    assert "\n" not in text


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"cannot read .*nothing.yml: No such file"):
        read_manifests(tmp_path / "nothing.yml")


class Server:
    """Server of pods and nodes that records its requests."""

    def __init__(self, status: int = 200, body: Any = None) -> None:
        self.asked: list[Request] = []
        self._status, self._body = status, body

    def __call__(self, request: Request) -> Response:
        self.asked.append(request)
        if request.method == "GET":
            resources = [
                {"name": "pods/status", "kind": "Pod", "namespaced": True},
                {"name": "pods", "kind": "Pod", "namespaced": True},
                {"name": "nodes", "kind": "Node", "namespaced": False},
            ]
            found = request.path == "/api/v1"
            return Response(status=200 if found else 404, body=orjson.dumps({"resources": resources}))
        return Response(status=self._status, body=b"" if self._body is None else orjson.dumps(self._body))


def manifest(*objects: dict[str, Any]) -> list[Manifest]:
    return [Manifest("file:3", each) for each in objects]


def obj(kind: str, api_version: str = "v1", **meta: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", **meta}}


def test_each_object_is_applied_in_its_namespace() -> None:
    server = Server()
    printed = apply(manifest(obj("Pod"), obj("Pod", namespace="n"), obj("Node", namespace="n")), server)
    assert printed == ["pod/a", "pod/a", "node/a"]
    paths = [request.path for request in server.asked if request.method == "PATCH"]
    assert paths == ["/api/v1/namespaces/default/pods/a", "/api/v1/namespaces/n/pods/a", "/api/v1/nodes/a"]
    assert len([request for request in server.asked if request.method == "GET"]) == 1


@pytest.mark.parametrize("unknown", [obj("Riddle"), obj("Pod", "nothing.example/v1")])
def test_unknown_kind_is_named(unknown: dict[str, Any]) -> None:
    with pytest.raises(
        ManifestError, match=f"^file:3: no matches for kind .{unknown['kind']}. in version .{unknown['apiVersion']}."
    ):
        apply(manifest(unknown), Server())


@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [
        (422, {"message": "spec is wrong"}, "spec is wrong"),
        (500, None, "returned status 500"),
        (502, [], "returned status 502"),
    ],
)
def test_error_of_the_server_is_reported(status: int, body: Any, complaint: str) -> None:
    with pytest.raises(ManifestError, match=f"^file:3: Pod a: .*{complaint}"):
        apply(manifest(obj("Pod")), Server(status, body))


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (obj("Deploymnt", "apps/v1"), 'no matches for kind "Deploymnt" in version "apps/v1"'),
        (
            {**obj("Deployment", "apps/v1"), "spec": {"replicas": "three"}},
            'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go',
        ),
        (
            {**obj("Pod"), "metadata": {"name": "a", "labels": {"a": 1}}},
            'Pod in version "v1" cannot be handled as a Pod',
        ),
    ],
)
def test_manifest_that_every_server_refuses_is_found_before_the_start(bad: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ManifestError) as error:
        check_manifests(manifest(obj("Pod"), bad))
    assert str(error.value).startswith(f"file:3: {complaint}")


def test_manifest_that_a_server_may_accept_passes_the_check() -> None:
    good = [obj("Pod"), obj("Website", "example.com/v1"), {**obj("Deployment", "apps/v1"), "spec": {"replicas": None}}]
    before = copy.deepcopy(good)
    check_manifests(manifest(*good))
    assert good == before


def test_scalars_are_read_as_by_kubectl(tmp_path: Path) -> None:
    path = tmp_path / "manifest.yml"
    path.write_text(CONFIGMAP + "data: {time: 1:30, day: 2026-01-02, mode: 0644, on: yes}\n")
    (manifest,) = read_manifests(path)
    assert manifest.obj["data"] == {"time": "1:30", "day": "2026-01-02", "mode": 420, "true": True}
