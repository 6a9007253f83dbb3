"""Keys, identities and owners of valid and invalid objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.protocols import objects
from kcm.protocols.objects import OwnerRef, controller_of, decode_object, encode_object, owner_reference

POD = {
    "metadata": {
        "name": "web-1",
        "namespace": "default",
        "uid": "u1",
        "resourceVersion": "7",
        "labels": {"app": "web"},
        "annotations": {"a": "b"},
    }
}
NAMES = st.text(alphabet="abc-.1", min_size=1, max_size=8)


def test_metadata_accessors_return_the_fields() -> None:
    assert objects.key_of(POD) == "default/web-1"
    assert objects.name_of(POD) == "web-1"
    assert objects.namespace_of(POD) == "default"
    assert objects.uid_of(POD) == "u1"
    assert objects.resource_version_of(POD) == "7"
    assert objects.labels_of(POD) == {"app": "web"}
    assert objects.annotations_of(POD) == {"a": "b"}
    assert objects.is_deleting(POD) is False


def test_a_cluster_scoped_object_has_its_name_as_key() -> None:
    assert objects.key_of({"metadata": {"name": "node-1"}}) == "node-1"
    assert objects.split_key("node-1") == ("", "node-1")


@given(NAMES, NAMES)
def test_a_key_can_be_split_into_what_it_was_made_of(namespace: str, name: str) -> None:
    assert objects.split_key(objects.make_key(namespace, name)) == (namespace, name)
    assert objects.split_key(objects.make_key("", name)) == ("", name)


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": "text"}, {"metadata": []}, {"metadata": {}}])
def test_an_object_without_metadata_has_an_empty_identity(obj: dict[str, Any]) -> None:
    assert objects.key_of(obj) == ""
    assert objects.uid_of(obj) == ""
    assert objects.resource_version_of(obj) == ""
    assert objects.labels_of(obj) == {}
    assert objects.annotations_of(obj) == {}
    assert objects.is_deleting(obj) is False
    assert controller_of(obj) is None


def test_an_object_is_deleting_from_the_moment_it_has_a_deletion_timestamp() -> None:
    assert objects.is_deleting({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}) is True
    assert objects.is_deleting({"metadata": {"deletionTimestamp": None}}) is False


def test_controller_is_the_owner_with_controller_true() -> None:
    references = [
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u0"},
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u1", "controller": False},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u2", "controller": True},
    ]
    assert controller_of({"metadata": {"ownerReferences": references}}) == OwnerRef(
        "apps/v1", "ReplicaSet", "web", "u2"
    )
    assert controller_of({"metadata": {"ownerReferences": references[:2]}}) is None
    assert controller_of({"metadata": {"ownerReferences": None}}) is None


def test_an_owner_reference_makes_its_owner_the_controller() -> None:
    owner = {"metadata": {"name": "web", "uid": "u2", "namespace": "default"}}
    reference = owner_reference(owner, api_version="apps/v1", kind="ReplicaSet")
    assert reference == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": "u2",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert controller_of({"metadata": {"ownerReferences": [reference]}}) == OwnerRef(
        "apps/v1", "ReplicaSet", "web", "u2"
    )


@given(st.dictionaries(st.text(max_size=4), st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()))
def test_an_object_survives_its_encoding(obj: dict[str, Any]) -> None:
    assert decode_object(encode_object(obj)) == obj
    assert list(decode_object(encode_object(obj))) == list(obj)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"5", b"null", b'"text"', b'{"a":}', b"\xff", b"{}{}"])
def test_invalid_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):
        decode_object(raw)


def test_value_unsupported_by_json_is_not_encoded() -> None:
    with pytest.raises(TypeError):
        encode_object({"a": {1, 2}})
