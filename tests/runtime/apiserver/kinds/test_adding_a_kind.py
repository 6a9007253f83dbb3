"""Example kind of docs/adding-a-kind.md: its file is extracted from the page, served and used."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.presentation.discovery import discovery
from tests.runtime.apiserver.http.served import Served, run

PAGE = Path(__file__).parents[4] / "docs" / "adding-a-kind.md"
COLLECTION = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def request(name: str = "r", **spec: Any) -> dict[str, Any]:
    whole = {
        "signerName": "example.com/signer",
        "podName": "web",
        "podUID": "1",
        "serviceAccountName": "default",
        "serviceAccountUID": "2",
        "nodeName": "n1",
        "nodeUID": "3",
    }
    return {"metadata": {"name": name}, "spec": {**whole, **spec}}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the example file, extracted from the page."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    path = tmp_path_factory.mktemp("kinds") / "pod_certificate_request.py"
    path.write_text(code)
    return path


@pytest.fixture(scope="module")
def kind(source: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("pod_certificate_request", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def api(make_api, kind):
    return make_api(resources=(*BUILT_IN, kind.RESOURCE))


@pytest.mark.slow
def test_example_passes_the_checks_of_the_project(source: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=55, cwd=PAGE.parents[1])
    assert done.returncode == 0, done.stdout + done.stderr


def test_example_kind_is_discovered(api) -> None:
    document = discovery(api.server.registry, "/apis/certificates.k8s.io/v1beta1", address="")
    assert document is not None
    assert [resource["name"] for resource in document["resources"]] == [
        "clustertrustbundles",
        "podcertificaterequests",
        "podcertificaterequests/status",
    ]


def test_example_kind_gets_defaults_and_no_status_from_clients(api) -> None:
    created = api.send("POST", COLLECTION, {**request(), "status": {"certificateChain": "x"}})
    assert created.status == 201
    assert created.obj["spec"]["maxExpirationSeconds"] == 86400
    assert created.obj["status"] == {}


def test_example_kind_is_validated(api) -> None:
    refused = api.send("POST", COLLECTION, request(podUID="", maxExpirationSeconds=1))
    assert (refused.status, refused.causes) == (
        422,
        {
            "spec.podUID": 'Invalid value: "": must not be empty',
            "spec.maxExpirationSeconds": "Invalid value: 1: must be in the range [3600, 7862400]",
        },
    )
    mistyped = api.send("POST", COLLECTION, request(maxExpirationSeconds="soon"))
    assert mistyped.status == 400
    assert "PodCertificateRequestSpec.spec.maxExpirationSeconds of type int32" in mistyped.message


def test_example_kind_has_an_immutable_spec_and_a_status_subresource(api) -> None:
    created = api.send("POST", COLLECTION, request()).obj
    moved = {**created, "spec": {**created["spec"], "nodeName": "n2"}}
    assert api.send("PUT", f"{COLLECTION}/r", moved).causes["spec"].endswith("field is immutable")
    issued = {**moved, "status": {"certificateChain": "x"}}
    shown = api.send("PUT", f"{COLLECTION}/r/status", issued).obj
    assert (shown["spec"]["nodeName"], shown["status"]) == ("n1", {"certificateChain": "x"})


def test_example_kind_can_be_selected_by_field_and_watched(api) -> None:
    watched = api.watch("podcertificaterequests", fieldSelector="spec.nodeName=n1")
    api.send("POST", COLLECTION, request("here"))
    api.send("POST", COLLECTION, request("elsewhere", nodeName="n2"))
    api.send("DELETE", f"{COLLECTION}/here")
    assert watched.seen == [("ADDED", "here"), ("DELETED", "here")]
    assert api.send("GET", COLLECTION, fieldSelector="spec.nodeName=n2").names == ["elsewhere"]


def test_example_kind_has_a_table(kind: ModuleType) -> None:
    async def scenario(served: Served) -> None:
        await served.ask("POST", COLLECTION, json=request())
        shown = (await served.get(COLLECTION, headers={"Accept": TABLE})).json
        names = [column["name"] for column in shown["columnDefinitions"]]
        assert names[:2] == ["Name", "PodName"]
        (row,) = shown["rows"]
        assert row["cells"] == ["r", "web", "default", "n1", "example.com/signer", "Pending", "<none>"]

    run(scenario, resources=(*BUILT_IN, kind.RESOURCE))
