"""Flags of programs that work on several clusters, which are the clusters that their controllers name."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.options import ControllerOptions, Options
from kcm.actors.reconciliation.specs import ControllerSpec, clusters_of
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import PAIRS


class ClusterOptions(ControllerOptions, frozen=True, kw_only=True):
    """Contexts of the kubeconfig, by cluster."""

    contexts: tuple[tuple[str, str], ...] = flag(
        (),
        "Contexts of --kubeconfig for the clusters of the program, as hub=production,edge=factory-7. "
        "By default the context of a cluster has its name.",
        kind=PAIRS,
        name="cluster-contexts",
    )


def context_of(cluster: str, options: Options) -> str:
    """Return the context of the kubeconfig for a cluster."""
    return dict(options[ClusterOptions].contexts).get(cluster, cluster)


def with_cluster_flags(specs: tuple[ControllerSpec, ...]) -> tuple[ControllerSpec, ...]:
    """Return the specs, followed by one that has the flags of clusters if the specs name several."""
    clusters = clusters_of(specs)
    if not clusters:
        return specs

    def check(options: Options) -> Iterator[str]:
        known = ", ".join(clusters)
        if not options.client.kubeconfig:
            yield f"--kubeconfig is required, with a context for each of the clusters {known}"
        if options.client.master:
            yield f"--master names one server, and the controllers work on the clusters {known}"
        for name, _ in options[ClusterOptions].contexts:
            if name not in clusters:
                yield f"--cluster-contexts names the unknown cluster {name!r}; there are {known}"
        for what, is_given in (
            ("--fault-plan", bool(options.diagnosis.fault_plan)),
            ("--enable-leader-migration", options.leader_migration.enabled),
            ("--leader-elect-groups", bool(options.leader_election.groups)),
            ("--feature-gates=CoordinatedLeaderElection=true", options.feature_gates["CoordinatedLeaderElection"]),
        ):
            if is_given:
                yield f"{what} needs a program with one cluster, and the controllers work on {known}"

    flags = ControllerSpec(
        name="clusters", build=lambda context: context, by_its_flags_alone=True, options=ClusterOptions, checks=(check,)
    )
    return (*specs, flags)
