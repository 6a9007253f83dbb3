"""The OpenAPI v2 document of the embedded API server is that of kube-apiserver, with the exceptions below."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.runtime_config import served_kinds
from kcm.runtime.apiserver.presentation.openapi.descriptions import Descriptions
from kcm.runtime.apiserver.presentation.openapi.v2 import make_document
from kcm.runtime.apiserver.presentation.openapi.v2_protobuf import encoded
from kcm.runtime.schema.api_types import built_in_types
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contracts import openapi_v2
from tests.runtime.apiserver.contracts.openapi_v2 import hashed, parts

REAL = openapi_v2.recorded()
# Deprecated watches by path, and subresources that are proxied to kubelets and pods, are not served.
NOT_HERE = re.compile(r"get /apis?/.*/watch/.*|\w+ .*/(?:attach|exec|log|portforward|proxy(?:/\{path\})?)")
# These name each group version that is served; upstream's also name those that are disabled.
OF_ALL_GROUPS = {f"definition io.k8s.apimachinery.pkg.apis.meta.v1.{name}" for name in ("DeleteOptions", "WatchEvent")}


@pytest.fixture
def ours(api: Api) -> dict[str, Any]:
    api.create("customresourcedefinitions", openapi_v2.definition())
    default = {definition.api_version for definition in served_kinds()}
    custom = openapi_v2.definition()["spec"]["group"]
    served = [found for found in api.server.registry if found.api_version in default or found.group == custom]
    made = make_document(served, built_in_types(), Descriptions(None), "1.36")
    return parts(json.loads(made.json()))


def test_definitions_and_operations_are_those_of_kube_apiserver(ours: dict[str, Any]) -> None:
    expected = {name for name in REAL if not NOT_HERE.fullmatch(name)}
    assert expected ^ ours.keys() == set()
    assert {name for name in expected if hashed(ours[name]) != REAL[name]} == OF_ALL_GROUPS


@pytest.mark.cluster
def test_recorded_parts_are_those_of_kube_apiserver(tmp_path: Path) -> None:
    from tests.e2e.real_server import assets_or_skip

    document, raw = openapi_v2.real_document(tmp_path, assets_or_skip())
    assert {name: hashed(part) for name, part in parts(document).items()} == REAL
    assert encoded(document) == raw
