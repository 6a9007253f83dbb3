"""Defaults and validation of Deployments."""

from __future__ import annotations

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Api


def test_a_deployment_gets_upstreams_defaults(api: Api) -> None:
    spec = api.create("deployments", api.replicaset()).obj["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "tolerations" not in spec["template"]["spec"]  # only pods have these defaults


@pytest.mark.parametrize(
    "strategy,field,text",
    [
        (
            {"type": "Recreate", "rollingUpdate": {}},
            "spec.strategy.rollingUpdate",
            "Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}},
            "spec.strategy.rollingUpdate.maxUnavailable",
            'Invalid value: "0%": may not be 0 when `maxSurge` is 0',
        ),
        (
            {"rollingUpdate": {"maxUnavailable": "101%"}},
            "spec.strategy.rollingUpdate.maxUnavailable",
            'Invalid value: "101%": must not be greater than 100%',
        ),
        (
            {"rollingUpdate": {"maxSurge": "x"}},
            "spec.strategy.rollingUpdate.maxSurge",
            (
                "Invalid value: \"x\": a valid percent string must be a numeric string followed by an ending '%' "
                "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            ),
        ),
        ({"type": "Blue"}, "spec.strategy", 'supported values: "Recreate", "RollingUpdate"'),
    ],
)
def test_invalid_deployment_strategy_is_rejected(api: Api, strategy: Object, field: str, text: str) -> None:
    refused = api.create("deployments", api.replicaset(strategy=strategy))
    assert refused.status == 422
    assert text in refused.causes[field]


def test_progress_deadline_must_exceed_min_ready_seconds(api: Api) -> None:
    refused = api.create("deployments", api.replicaset(progressDeadlineSeconds=5, minReadySeconds=5))
    assert refused.causes == {"spec.progressDeadlineSeconds": "Invalid value: 5: must be greater than minReadySeconds"}
