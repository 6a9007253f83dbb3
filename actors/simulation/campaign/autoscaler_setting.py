"""The setting of seeded runs about autoscalers: workloads, and a load that comes and goes.

Without behavior, scaling down waits for less than the runs last.
"""

from __future__ import annotations

from kcm.actors.controllers.workloads import horizontal_pod_autoscaler
from kcm.actors.simulation.campaign.flags import given
from kcm.actors.simulation.campaign.setting import WORKLOADS, Setting

AUTOSCALERS_TOO = Setting(
    name="autoscalers",
    controllers=(*WORKLOADS, horizontal_pod_autoscaler.SPEC),
    options=lambda _scenario: given("--horizontal-pod-autoscaler-downscale-stabilization=40s"),
    settled=400.0,  # down from 7 replicas, one in 45 s
)
