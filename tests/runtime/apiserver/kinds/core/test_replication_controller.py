"""ReplicationControllers."""

from __future__ import annotations

from tests.runtime.apiserver.conftest import Api


def test_a_replication_controller_selects_what_its_template_labels(api: Api) -> None:
    created = api.create("replicationcontrollers", {"metadata": {"name": "rc"}, "spec": {"template": api.template()}})
    assert created.status == 201
    assert created.obj["spec"]["selector"] == {"app": "web"}
    assert created.meta["labels"] == {"app": "web"}
    assert created.obj["spec"]["replicas"] == 1
