"""How objects are stored."""

from __future__ import annotations


def test_what_identifies_an_object_comes_first_in_its_metadata(api):
    pod = api.pod()
    pod["metadata"] = {"labels": {"resourceVersion": "7"}, "annotations": {"a": "b"}, **pod["metadata"]}
    identity = ["name", "namespace", "uid", "resourceVersion"]
    assert list(api.create("pods", pod).meta)[:4] == identity
    assert list(api.put("pods", pod).meta)[:4] == identity  # an update by an object without a version
    assert list(api.patch("pods", "web", {"metadata": {"labels": {"c": "d"}}}).meta)[:4] == identity
