"""Objects that a watch selects, and containment of selections."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.resources import NODES, PODS
from kcm.runtime.tables.selection import WHOLE, Selection, read_selection
from tests.support.objects import pod


def of_pods(
    labels: str = "", fields: str = "", namespaces: tuple[str, ...] | None = None, *, metadata_only: bool = False
) -> Selection:
    return read_selection(PODS, labels=labels, fields=fields, namespaces=namespaces, metadata_only=metadata_only)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (WHOLE, of_pods("app=web")),
        (WHOLE, of_pods(namespaces=("a",))),
        (WHOLE, of_pods(metadata_only=True)),
        (WHOLE, of_pods(fields="metadata.name=x")),
        (of_pods("app"), of_pods("app=web,tier=front")),
        (of_pods("app in (web,db)"), of_pods("app=web")),
        (of_pods("app!=old"), of_pods("app=web")),
        (of_pods("app!=old"), of_pods("!app")),
        (of_pods("app notin (a,b)"), of_pods("app notin (a,b,c)")),
        (of_pods(namespaces=("a", "b")), of_pods("app=web", namespaces=("b",))),
        (of_pods(fields="status.phase=Running"), of_pods(fields="status.phase=Running,metadata.name=x")),
        (of_pods("app=web"), of_pods("app=web", metadata_only=True)),
    ],
)
def test_one_selection_contains_another(outer: Selection, inner: Selection) -> None:
    assert outer.contains(inner)
    assert not inner.contains(outer)
    assert outer.contains(outer)


@pytest.mark.parametrize(
    ("selection", "other"),
    [
        (of_pods("app=web"), of_pods("app=db")),
        (of_pods("app=web"), of_pods("tier=front")),
        (of_pods("size>3"), of_pods("size=5")),
        (of_pods(namespaces=("a",)), of_pods(namespaces=("b",))),
        (of_pods("app=web"), of_pods(namespaces=("a",))),
        (of_pods(metadata_only=True), of_pods("app=web")),
        # Only the server can evaluate field selectors.
        (WHOLE, of_pods(fields="spec.hostNetwork=false")),
    ],
)
def test_one_selection_does_not_contain_another(selection: Selection, other: Selection) -> None:
    assert not selection.contains(other)


@pytest.mark.parametrize(
    ("selection", "selects"),
    [
        (of_pods("app=web"), True),
        (of_pods("app=db"), False),
        (of_pods(namespaces=("default", "other")), True),
        (of_pods(namespaces=("other",)), False),
        (of_pods(fields="metadata.name=a"), True),
        (of_pods(fields="metadata.namespace!=default"), False),
        (of_pods(fields="spec.nodeName=n1"), True),
        (of_pods(fields="spec.nodeName=n2"), False),
        (of_pods(fields="spec.hostNetwork=false"), True),
    ],
)
def test_selection_of_an_object(selection: Selection, selects: bool) -> None:
    assert selection.selects(pod("a", node="n1", metadata={"labels": {"app": "web"}})) is selects


def test_table_id_is_that_of_the_resource_plus_restrictions_without_spaces() -> None:
    assert WHOLE.id_of(PODS) == "v1/pods"
    assert of_pods("tier in (a, b), app=web", namespaces=("shop",), metadata_only=True).id_of(PODS) == (
        "v1/pods?namespace=shop&labels=app=web,tier%20in%20%28a,b%29&metadata"
    )


@pytest.mark.parametrize(
    ("resource", "wrong", "error", "text"),
    [
        (PODS, {"labels": "app in"}, ValueError, "column 7"),
        (PODS, {"labels": {"app": "web"}}, TypeError, "labels of a watch of pods are a selector, as text"),
        (PODS, {"fields": "status.phase"}, ValueError, "expected field=value"),
        (PODS, {"namespaces": "shop"}, TypeError, "namespaces of a watch of pods: expected a tuple, got 'shop'"),
        (PODS, {"namespaces": ()}, ValueError, "are empty; None selects all"),
        (PODS, {"namespaces": ("a/b",)}, ValueError, "'a/b' is not a valid namespace"),
        (
            NODES,
            {"namespaces": ("shop",)},
            ValueError,
            "nodes are cluster-scoped; the watch selects namespaces shop",
        ),
    ],
)
def test_invalid_selection_is_rejected(resource: Any, wrong: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        read_selection(resource, **{"labels": "", "fields": "", "namespaces": None, "metadata_only": False, **wrong})
