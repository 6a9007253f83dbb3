"""The pod field schedulingGroup, which is kept only if the server serves PodGroups."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.pod_spec.scheduling_groups import with_scheduling_groups
from kcm.runtime.apiserver.kinds.scheduling import pod_group

SPEC: Object = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "g"}}


@pytest.mark.parametrize(
    ("plural", "spec", "path"),
    [("pods", SPEC, ()), ("jobs", {"template": {"spec": SPEC}}, ("template", "spec"))],
)
@pytest.mark.parametrize("served", [True, False])
def test_field_is_kept_where_pod_groups_are_served(plural: str, spec: Object, path: Any, served: bool) -> None:
    kinds = with_scheduling_groups((*BUILT_IN, pod_group.RESOURCE) if served else BUILT_IN)
    strategy = next(kind for kind in kinds if kind.plural == plural).strategy
    obj: Object = {"metadata": {"name": "o"}, "spec": copy.deepcopy(spec)}
    strategy.set_defaults(obj)
    strategy.canonicalize(obj)
    found = obj["spec"]
    for name in path:
        found = found[name]
    assert ("schedulingGroup" in found) is served
