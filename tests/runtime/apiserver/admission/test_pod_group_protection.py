"""Tests of the admission plugin PodGroupProtection."""

from __future__ import annotations

import pytest

from kcm.runtime.apiserver.admission.pod_group_protection import FINALIZER, admit_create
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload


@pytest.mark.parametrize("given", [[], ["a.b/c"], [FINALIZER]])
def test_new_group_gets_the_finalizer_once(given: list[str]) -> None:
    group = {"metadata": {"name": "g", "finalizers": given}}
    admit_create(pod_group.RESOURCE, group)
    assert group["metadata"]["finalizers"] == [*(name for name in given if name != FINALIZER), FINALIZER]


def test_other_kinds_get_no_finalizer() -> None:
    other = {"metadata": {"name": "w"}}
    admit_create(workload.RESOURCE, other)
    assert other == {"metadata": {"name": "w"}}
