"""Commands as reconcilers write them."""

from __future__ import annotations

import pytest

from actors.reconciliation import create
from protocols.messages.commands import Create
from protocols.resources import NODES, PODS
from runtime.tables.overlay import Tables


def test_what_is_made_in_no_namespace_is_refused_where_its_author_sees_it() -> None:
    with pytest.raises(ValueError, match="a Pod is made in a namespace, and none is given for 'web'"):
        create(PODS, {"metadata": {"name": "web"}})
    assert create(PODS, {"metadata": {"name": "web"}}, namespace="d") == Create(
        "v1/pods", "d", b'{"metadata":{"name":"web"}}'
    )
    assert create(NODES, {"metadata": {"name": "n"}}).namespace == ""


def test_a_table_that_was_not_asked_for_is_named_in_the_error() -> None:
    with pytest.raises(KeyError, match="v1/pods is neither watched nor read by this controller"):
        Tables({})[PODS]
