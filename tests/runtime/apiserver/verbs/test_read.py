"""GET of objects and collections: selectors, pages, versions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.storage import history
from tests.runtime.apiserver.conftest import Api


@pytest.fixture
def filled(api: Api) -> Api:
    """Create pods a to e in default, and b in kube-system."""
    for i, name in enumerate("abcde"):
        body = api.pod(name, nodeName=f"n{i % 2}")
        body["metadata"]["labels"] = {"app": name, "parity": str(i % 2)}
        api.create("pods", body)
    api.create("pods", api.pod("b"), namespace="kube-system")
    return api


def test_list_is_sorted_by_key_and_contains_the_stored_objects(filled: Api) -> None:
    listed = filled.list("pods")
    assert (listed.obj["kind"], listed.obj["apiVersion"]) == ("PodList", "v1")
    assert listed.obj["metadata"] == {"resourceVersion": str(filled.server.revision)}
    assert listed.names == ["a", "b", "c", "d", "e"]
    assert listed.obj["items"][2] == filled.get("pods", "c").obj
    everywhere = filled.list("pods", namespace=None)
    assert [item["metadata"]["namespace"] for item in everywhere.obj["items"]] == ["default"] * 5 + ["kube-system"]


def test_list_excludes_namespaces_with_the_same_prefix(api: Api) -> None:
    for namespace in ("team", "team-a"):
        api.create("namespaces", {"metadata": {"name": namespace}})
        api.create("pods", api.pod(f"in-{namespace}"), namespace=namespace)
    assert api.list("pods", namespace="team").names == ["in-team"]


def test_an_empty_list_has_items(api: Api) -> None:
    assert api.list("pods").obj["items"] == []


@pytest.mark.parametrize(
    "query,names",
    [
        ({"labelSelector": "parity=0"}, ["a", "c", "e"]),
        ({"labelSelector": "parity!=0,app notin (b)"}, ["d"]),
        ({"labelSelector": "app in (a,b),!other"}, ["a", "b"]),
        ({"fieldSelector": "metadata.name=c"}, ["c"]),
        ({"fieldSelector": "metadata.name!=c,metadata.namespace=default"}, ["a", "b", "d", "e"]),
        ({"fieldSelector": "spec.nodeName=n1"}, ["b", "d"]),
        ({"fieldSelector": "spec.nodeName=n1", "labelSelector": "app=d"}, ["d"]),
        ({"fieldSelector": "status.phase=Pending,spec.nodeName!=n1"}, ["a", "c", "e"]),
        ({"fieldSelector": "spec.hostNetwork=false"}, ["a", "b", "c", "d", "e"]),
        ({"fieldSelector": "status.podIP=10.0.0.1"}, []),
    ],
)
def test_selectors_filter_a_list(filled: Api, query: Object, names: Sequence[str]) -> None:
    assert filled.list("pods", **query).names == names


@pytest.mark.parametrize(
    "resource,query,text",
    [
        ("pods", {"fieldSelector": "spec.foo=1"}, "field label not supported: spec.foo"),
        (
            "deployments",
            {"fieldSelector": "spec.foo=1"},
            '"spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("nodes", {"fieldSelector": "metadata.namespace=x"}, "field label not supported: metadata.namespace"),
        ("pods", {"labelSelector": "a=("}, "unable to parse requirement: "),
        ("pods", {"fieldSelector": "nonsense"}, "invalid selector: "),
        ("pods", {"timeoutSeconds": "x"}, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("pods", {"limit": "few"}, 'strconv.ParseInt: parsing "few": invalid syntax'),
        ("pods", {"resourceVersion": "new"}, 'strconv.ParseUint: parsing "new": invalid syntax'),
        ("pods", {"continue": "???"}, "continue key is not valid"),
        ("pods", {"continue": "eyJ2IjoxfQ"}, "continue key is not valid"),
    ],
)
def test_invalid_list_options_are_a_bad_request(api: Api, resource: str, query: Object, text: str) -> None:
    refused = api.list(resource, **query)
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert text in refused.message


def test_list_of_any_version_is_not_paged(filled: Api) -> None:
    whole = filled.list("pods", limit="2", resourceVersion="0")
    assert whole.names == ["a", "b", "c", "d", "e"]
    assert "continue" not in whole.meta


def test_pages_show_one_state_despite_later_writes(filled: Api) -> None:
    revision = str(filled.server.revision)
    first = filled.list("pods", limit="2")
    assert first.names == ["a", "b"]
    assert first.meta["remainingItemCount"] == 3

    filled.delete("pods", "c", {"gracePeriodSeconds": 0})
    filled.create("pods", filled.pod("cc"))
    filled.patch("pods", "d", {"metadata": {"labels": {"new": "yes"}}})
    filled.delete("pods", "b", {"gracePeriodSeconds": 0})

    second = filled.list("pods", limit="2", **{"continue": first.meta["continue"]})
    third = filled.list("pods", limit="2", **{"continue": second.meta["continue"]})
    assert second.names + third.names == ["c", "d", "e"]
    assert [page.meta["resourceVersion"] for page in (first, second, third)] == [revision] * 3
    assert "new" not in second.obj["items"][1]["metadata"]["labels"]
    assert "continue" not in third.meta
    assert filled.list("pods").names == ["a", "cc", "d", "e"]


def test_pages_of_a_selection_have_no_remaining_item_count(filled: Api) -> None:
    page = filled.list("pods", limit="1", labelSelector="parity=0")
    assert page.names == ["a"]
    assert "remainingItemCount" not in page.meta
    follow = filled.list("pods", limit="5", labelSelector="parity=0", **{"continue": page.meta["continue"]})
    assert follow.names == ["c", "e"]


def test_earlier_version_can_be_listed_exactly(filled: Api) -> None:
    revision = str(filled.server.revision)
    filled.delete("pods", "a", {"gracePeriodSeconds": 0})
    then = filled.list("pods", resourceVersion=revision, resourceVersionMatch="Exact", labelSelector="parity=0")
    assert then.names == ["a", "c", "e"]
    newest = filled.list("pods", resourceVersion=revision, resourceVersionMatch="NotOlderThan")
    assert newest.names == ["b", "c", "d", "e"]


def test_compacted_version_is_gone(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "HISTORY", 3)
    for i in range(3):
        api.create("pods", api.pod(f"p{i}"))
    page = api.list("pods", limit="1")
    for i in range(9):
        api.create("pods", api.pod(f"q{i}"))

    expired = api.list("pods", **{"continue": page.meta["continue"]})
    assert (expired.status, expired.reason) == (410, "Expired")
    assert expired.message.startswith("The provided continue parameter is too old to display a consistent list result.")
    rest = api.list("pods", limit="3", **{"continue": expired.meta["continue"]})
    assert (rest.names, rest.meta["resourceVersion"]) == (["p1", "p2", "q0"], str(api.server.revision))
    assert api.list("pods", **{"continue": rest.meta["continue"]}).names == [f"q{i}" for i in range(1, 9)]
    exact = api.list("pods", resourceVersion=page.meta["resourceVersion"], resourceVersionMatch="Exact")
    assert (exact.status, exact.message) == (410, "The resourceVersion for the provided list is too old.")


def test_version_is_gone_after_five_minutes_without_changes(filled: Api) -> None:
    """The server behaves like etcd, which compacts the whole history."""
    page = filled.list("pods", limit="1")
    then = page.meta["resourceVersion"]
    filled.advance(10)
    filled.create("configmaps", {"metadata": {"name": "other"}})
    for _ in range(5):
        filled.advance(10)
    assert filled.list("pods", **{"continue": page.meta["continue"]}).names == ["b", "c", "d", "e"]
    filled.advance(300)
    expired = filled.list("pods", **{"continue": page.meta["continue"]})
    assert (expired.status, expired.reason) == (410, "Expired")
    assert filled.list("pods", resourceVersion=then, resourceVersionMatch="Exact").status == 410
    assert filled.list("pods", resourceVersion=str(filled.server.revision), resourceVersionMatch="Exact").status == 200
    assert filled.watch("pods", resourceVersion=then).seen == []  # without missed events


def test_future_version_times_out(api: Api) -> None:
    future = str(api.server.revision + 10)
    refused = api.list("pods", resourceVersion=future)
    assert (refused.status, refused.reason) == (504, "Timeout")
    assert refused.message == f"Timeout: Too large resource version: {future}, current: {api.server.revision}"
    assert refused.obj["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert api.get("namespaces", "default", resourceVersion=future).status == 504
    assert api.list("pods", resourceVersion="0").status == 200


@pytest.mark.parametrize(
    "query,field",
    [
        ({"resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Roughly", "resourceVersion": "1"}, "resourceVersionMatch"),
        ({"sendInitialEvents": "true"}, "sendInitialEvents"),
    ],
)
def test_incompatible_list_options_are_rejected(api: Api, query: Object, field: str) -> None:
    refused = api.list("pods", **query)
    assert (refused.status, refused.obj["details"]["kind"]) == (422, "ListOptions")
    assert field in refused.causes


def test_a_continued_list_has_its_revision_in_the_token(filled: Api) -> None:
    token = filled.list("pods", limit="1").meta["continue"]
    refused = filled.list("pods", resourceVersion="3", **{"continue": token})
    assert refused.message == "specifying resource version is not allowed when using continue"


def test_missing_object_is_not_found(api: Api) -> None:
    refused = api.get("replicasets", "web")
    assert (refused.status, refused.reason) == (404, "NotFound")
    assert refused.message == 'replicasets.apps "web" not found'
    assert refused.obj["details"] == {"name": "web", "group": "apps", "kind": "replicasets"}
