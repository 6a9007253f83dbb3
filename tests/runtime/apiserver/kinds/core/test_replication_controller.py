"""Defaults of ReplicationControllers."""

from __future__ import annotations

from tests.runtime.apiserver.conftest import Api


def test_selector_defaults_to_the_labels_of_the_template(api: Api) -> None:
    created = api.create("replicationcontrollers", {"metadata": {"name": "rc"}, "spec": {"template": api.template()}})
    assert created.status == 201
    assert created.obj["spec"]["selector"] == {"app": "web"}
    assert created.meta["labels"] == {"app": "web"}
    assert created.obj["spec"]["replicas"] == 1
