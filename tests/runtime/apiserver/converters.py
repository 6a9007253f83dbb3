"""A webhook that converts Widgets: v1 has a host and a port, v2 has both in one field. Its path selects errors."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from tests.runtime.apiserver.webhooks import Hook

Object = dict[str, Any]


def converted(obj: Object, api_version: str) -> Object:
    new = copy.deepcopy(obj)
    new["apiVersion"] = api_version
    spec = new.get("spec")
    if spec is None:
        return new
    if api_version.endswith("/v2") and "host" in spec:
        spec["hostPort"] = f"{spec.pop('host')}:{spec.pop('port', '')}"
    elif not api_version.endswith("/v2") and "hostPort" in spec:
        spec["host"], _, spec["port"] = str(spec.pop("hostPort")).partition(":")
        spec.pop("tier", None)
    return new


def _with(**fields: Any) -> Callable[[Object], Object]:
    return lambda obj: {**obj, **fields}


def _with_metadata(**fields: Any) -> Callable[[Object], Object]:
    return lambda obj: {**obj, "metadata": {**obj["metadata"], **fields}}


def _without(field: str) -> Callable[[Object], Object]:
    return lambda obj: {name: value for name, value in obj.items() if name != field}


# Errors by path: function that changes each converted object.
MISTAKES: dict[str, Callable[[Object], Object]] = {
    "/other-kind": _with(kind="Gadget"),
    "/other-version": _with(apiVersion="example.com/v9"),
    "/renames": _with_metadata(name="other"),
    "/moves": _with_metadata(namespace="other"),
    "/other-uid": _with_metadata(uid="other"),
    "/bad-label": _with_metadata(labels={"a b": "c"}),
    "/bad-annotation": _with_metadata(annotations={"a b": "c"}),
    "/number": _with_metadata(labels={"a": 1}),
    "/labels-are-text": _with_metadata(labels="a"),
    "/no-metadata": _without("metadata"),
    "/no-kind": _without("kind"),
    "/meddles": _with_metadata(
        labels={"converted": "yes"}, annotations=None, finalizers=["example.com/f"], generation=99, managedFields=[]
    ),
    "/adds": lambda obj: {**obj, "spec": {**obj["spec"], "stray": 1}, "more": {}},
}
# Errors by path: function that changes the response.
RESPONSES: dict[str, Callable[[Object], Object]] = {
    "/refuses": _with(result={"status": "Failure", "message": "it is a Monday"}),
    "/refuses-silently": _with(result={"status": "Failure"}),
    "/no-result": _without("result"),
    "/wrong-uid": _with(uid="other"),
    "/none": _with(convertedObjects=[]),
}


class Converter(Hook):
    """Conversion webhook that records the requests of its reviews."""

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        review = json.loads(body)
        request = review["request"]
        self.heard.append((path, request))
        match path:
            case "/fails":
                return 500, b"oh no"
            case "/lost":
                return 404, b"404 page not found"
            case "/text":
                return 200, b"oh no"
            case "/silent":
                return 200, json.dumps({"kind": "ConversionReview", "apiVersion": review["apiVersion"]}).encode()
        objects = [converted(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
        spoil = MISTAKES.get(path, lambda obj: obj)
        response = {
            "uid": request["uid"],
            "result": {"status": "Success"},
            "convertedObjects": [spoil(obj) for obj in objects],
        }
        whole = {"kind": "ConversionReview", "apiVersion": review["apiVersion"]}
        if path == "/other-review":
            whole["kind"] = "AdmissionReview"
        if path == "/old-review":
            whole["apiVersion"] = "apiextensions.k8s.io/v1beta1"
        response = RESPONSES.get(path, lambda unchanged: unchanged)(response)
        return 200, json.dumps({**whole, "response": response}).encode()
