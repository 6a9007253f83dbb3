"""DefaultTolerationSeconds: every pod tolerates an unreachable node for a while."""

from __future__ import annotations

from tests.runtime.apiserver.conftest import Api


def test_a_pod_cannot_be_without_the_tolerations_that_every_pod_has(api: Api) -> None:
    created = api.create("pods", api.pod())
    assert len(created.obj["spec"]["tolerations"]) == 2
    assert api.patch("pods", "web", {"spec": {"tolerations": []}}).obj == created.obj
