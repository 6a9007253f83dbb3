"""How objects are stored."""

from __future__ import annotations

IDENTITY = ["name", "namespace", "uid", "resourceVersion"]


def test_what_identifies_an_object_comes_first_in_its_metadata(api):
    config = {"metadata": {"labels": {"resourceVersion": "7"}, "annotations": {"a": "b"}, "name": "web"}}
    assert list(api.create("configmaps", config).meta)[:4] == IDENTITY
    assert list(api.put("configmaps", config).meta)[:4] == IDENTITY  # without a version
    assert list(api.patch("configmaps", "web", {"metadata": {"labels": {"c": "d"}}}).meta)[:4] == IDENTITY
