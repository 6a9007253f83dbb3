"""DefaultTolerationSeconds: every pod tolerates an unreachable node for a while."""

from __future__ import annotations

from tests.runtime.apiserver.conftest import Api


def test_default_tolerations_cannot_be_removed(api: Api) -> None:
    created = api.create("pods", api.pod())
    assert len(created.obj["spec"]["tolerations"]) == 2
    assert api.patch("pods", "web", {"spec": {"tolerations": []}}).obj == created.obj
