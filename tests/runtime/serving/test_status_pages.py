"""The pages /statusz and /flagz."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcm.runtime.serving.status_pages import wanted_version
from tests.runtime.serving.conftest import RequestPage


@pytest.mark.parametrize(
    "path, lines",
    [
        ("/flagz", ["kube-controller-manager flagz", "profiling: true", "v: 2"]),
        (
            "/statusz",
            [
                "kube-controller-manager statusz",
                "Started: Fri Nov 21 12:00:00 UTC 2025",
                "Up: 0:02:00",
                "Binary version: v1.36.2+kcm.0.1.0",
                "Emulation version: 1.36",
                "Paths: /configz /flagz /healthz /metrics",
            ],
        ),
    ],
)
def test_status_pages_as_text(request_page: RequestPage, path: str, lines: list[str]) -> None:
    answer = request_page(path)
    shown = answer.text.splitlines()
    assert shown[1].startswith("Warning: This endpoint is not meant to be machine parseable")
    assert [shown[0], *shown[3:]] == lines


@pytest.mark.parametrize(
    "path, kind, facts",
    [
        ("/flagz", "Flagz", {"flags": {"profiling": "true", "v": "2"}}),
        (
            "/statusz",
            "Statusz",
            {
                "startTime": "2025-11-21T12:00:00Z",
                "uptimeSeconds": 120,
                "binaryVersion": "v1.36.2+kcm.0.1.0",
                "emulationVersion": "1.36",
                "paths": ["/configz", "/flagz", "/healthz", "/metrics"],
            },
        ),
    ],
)
def test_status_pages_as_json(request_page: RequestPage, path: str, kind: str, facts: dict[str, Any]) -> None:
    accept = f"application/json;as={kind};v=v1beta1;g=config.k8s.io"
    assert json.loads(request_page(path, headers={"Accept": accept}).text) == {
        "kind": kind,
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-controller-manager"},
        **facts,
    }
    assert request_page(path, headers={"Accept": "application/json"}).status == 406


@pytest.mark.parametrize(
    "accept, version",
    [
        ("", ""),
        ("*/*", ""),
        ("text/plain", ""),
        ("image/png, text/plain;q=0.5", ""),
        ("application/json;as=Flagz;v=v1alpha1;g=config.k8s.io", "v1alpha1"),
        ("application/json; as=Flagz; v=v1beta1; g=config.k8s.io", "v1beta1"),
        ("application/json;as=Flagz;v=v7;g=config.k8s.io", None),
        ("application/json;as=Statusz;v=v1beta1;g=config.k8s.io", None),
        ("application/yaml", None),
    ],
)
def test_accept_header_selects_text_or_version(accept: str, version: str | None) -> None:
    assert wanted_version(accept, "Flagz") == version
