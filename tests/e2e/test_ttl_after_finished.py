"""Finished Jobs go when their time is up, on our cluster and a real kube-apiserver."""

from __future__ import annotations

from tests.e2e.finished_jobs import left, scene
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import until


def test_a_job_goes_when_its_time_is_up(kubectl: Kubectl) -> None:
    scene(kubectl)
    until(lambda: set(left(kubectl)) == {"later", "never", "running"}, "two are gone", why=kubectl.state)
    kubectl("patch", "job", "later", "--type=merge", '--patch={"spec":{"ttlSecondsAfterFinished":2}}')
    until(lambda: set(left(kubectl)) == {"never", "running"}, "its time is up sooner", why=kubectl.state)
