"""The setting of seeded runs about Jobs, and the collector of what they leave behind."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery import garbage_collector
from kcm.actors.controllers.workloads import job
from kcm.actors.options import Options
from kcm.actors.simulation.campaign.flags import given
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.cluster import SimulatedCluster
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload


def _options(scenario: int) -> Options | None:
    """In every other run the pods of some Jobs are scheduled together."""
    if scenario % 2 == 0:
        return None
    return given("--feature-gates=GenericWorkload=true,WorkloadWithJob=true")


def _serve_workloads(cluster: SimulatedCluster) -> None:
    cluster.serve(workload.RESOURCE, pod_group.RESOURCE)
    cluster.restart_server()


JOBS_TOO = Setting(
    name="jobs",
    controllers=(job.SPEC, garbage_collector.SPEC),
    options=_options,
    prepare=_serve_workloads,
)
