"""Validation of flexVolume sources."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.pod_spec.volumes import wrong_source


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ({"driver": "example.com/lvm", "options": {"size": "1G"}}, []),
        ({}, ["v.flexVolume.driver"]),
        ({"driver": "d", "options": {"Kubernetes.io/a": "b", "my.k8s.io": "c"}}, ["[Kubernetes.io/a]", "[my.k8s.io]"]),
    ],
)
def test_flex_volume_needs_a_driver_and_must_not_use_reserved_options(source: dict[str, Any], wrong: list[str]) -> None:
    found = list(wrong_source({"name": "v", "flexVolume": source}, "v"))
    assert [error.field.removeprefix("v.flexVolume.options") for error in found] == wrong
