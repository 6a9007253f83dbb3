"""Metrics that actors of a whole system report."""

from __future__ import annotations

from kcm.actors.app.arguments import read_options
from kcm.actors.simulation import SimulatedCluster
from kcm.runtime.metrics.registry import Gauge, Histogram, Metrics


def shown(metrics: Metrics, family: str) -> dict[tuple[str, ...], Gauge | Histogram]:
    """Return the series of a family by their labels."""
    found = next((series for exported, series in metrics.collect() if exported.name == family), [])
    return {labels: series for labels, series in found if isinstance(series, Gauge | Histogram)}


def test_running_controllers_and_informers_are_reported() -> None:
    flags = ["--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/22", "--controllers=nodeipam,garbagecollector"]
    cluster = SimulatedCluster(seed=1)
    system = cluster.manager(options=read_options(flags))
    cluster.run_for(60.0)
    running = shown(system.metrics, "running_managed_controllers")
    assert {labels: series.value for labels, series in running.items() if isinstance(series, Gauge)} == {
        ("nodeipam", "kube-controller-manager"): 1
    }
    informers = shown(system.metrics, "informer_processing_latency_seconds")
    assert ("kube-controller-manager", "", "v1", "nodes") in informers
    assert ("kube-controller-manager", "networking.k8s.io", "v1", "ingresss") in informers
    assert informers.keys() == shown(system.metrics, "informer_queued_items").keys()
    idle = {
        labels[3] for labels, series in informers.items() if isinstance(series, Histogram) and not sum(series.counts)
    }
    assert idle == set()
    # The informers of controllers that a feature gate enables are not started.
    gated = {"podgroups", "resourcepoolstatusrequests", "storageversionmigrations", "storageversions"}
    assert gated.isdisjoint(labels[3] for labels in informers)
