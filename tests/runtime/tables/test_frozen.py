"""Frozen objects, which tables return under test: changes raise, and reads are unaffected."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from kcm.runtime.tables.frozen import FrozenError, freeze

POD = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"containers": [{"name": "c", "args": ["1", "2"]}]}}


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod.update(spec=None),
        lambda pod: pod["metadata"].__setitem__("name", "b"),
        lambda pod: pod["metadata"]["labels"].pop("x"),
        lambda pod: pod["metadata"].setdefault("uid", "u"),
        lambda pod: pod["spec"]["containers"].append({}),
        lambda pod: pod["spec"]["containers"][0]["args"].sort(),
        lambda pod: pod["spec"]["containers"][0]["args"].__setitem__(0, "3"),
        lambda pod: pod["spec"].clear(),
    ],
)
def test_change_of_a_frozen_object_raises(change: Callable[[Any], Any]) -> None:
    frozen = freeze(POD)
    with pytest.raises(FrozenError, match="read from a table"):
        change(frozen)
    assert frozen == POD


def test_frozen_object_reads_encodes_and_copies_like_the_original() -> None:
    frozen = freeze(POD)
    assert orjson.dumps(frozen) == orjson.dumps(POD)
    assert {**frozen, "status": {}} == {**POD, "status": {}}
    assert isinstance(frozen["spec"]["containers"], list)


def test_a_deep_copy_may_be_changed() -> None:
    thawed = orjson.loads(orjson.dumps(freeze(POD)))
    thawed["metadata"]["name"] = "b"
    assert copy.copy(POD)["metadata"]["name"] == "a"
