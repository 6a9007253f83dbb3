"""Trust bundle publisher: publishes the API server's root certificates as a ClusterTrustBundle.

Input: ClusterTrustBundles of the signer kubernetes.io/kube-apiserver-serving.
Output: one ClusterTrustBundle, whose name contains the hash of its certificates; other bundles of the signer are
deleted.
Key: a constant.

Source: kubernetes v1.36 pkg/controller/certificates/clustertrustbundlepublisher/publisher.go. Differences:
- The controller also starts if the API is not served yet. Upstream checks this once, at the start, and does not run the
  controller without the API.
- Deletions have the uid of the bundle as precondition.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.identity.root_ca import check_root_ca, root_ca
from kcm.actors.controllers.identity.sync_metrics import SyncMetrics, families
from kcm.actors.reconciliation import (
    Because,
    Change,
    Enqueue,
    Reconciliation,
    RequeueAfter,
    Step,
    create,
    delete,
    must,
    must_all,
    update,
)
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.integers import counted
from kcm.protocols.messages.discovery import ServedResource, TablesChanged
from kcm.protocols.messages.lifecycle import Restarted
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.resources import Resource
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

GATE = "ClusterTrustBundle"
SIGNER = "kubernetes.io/kube-apiserver-serving"
GROUP, PLURAL = "certificates.k8s.io", "clustertrustbundles"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
QUEUE = "ca_cert_publisher_cluster_trust_bundles"
KEY = ""
ARRIVAL_CHECK = 1.0  # seconds between checks whether the informer of the bundles has synced
TOTAL, DURATION = families(
    "clustertrustbundle_publisher",
    help="Number of syncs that occurred in cluster trust bundle publisher.",
    duration_help="The time it took to sync a cluster trust bundle.",
)


def bundle_name(bundle: bytes) -> str:
    """Return the name of the ClusterTrustBundle with these certificates.

    bundle: certificates in PEM. Source: constructBundleName.
    """
    return f"{SIGNER.replace('/', ':')}:{hashlib.sha256(bundle).digest()[:12].hex()}"


class TrustBundlePublisher:
    """Publishes the API server's root certificates as a ClusterTrustBundle, and deletes replaced bundles.

    authority: root certificates in PEM; b"" publishes nothing.
    """

    def __init__(self, *, tables: Tables, authority: bytes, metrics: SyncMetrics, log: FilteringBoundLogger) -> None:
        self._tables, self._metrics, self._log = tables, metrics, log
        self._bundle, self._name = authority.decode("utf-8", "replace"), bundle_name(authority)

    def on_message(self, message: Any) -> Iterable[Enqueue]:
        match message:
            case TablesChanged() | Restarted():
                return (Enqueue(QUEUE, KEY),) if self._bundle else ()
            case _:
                raise TypeError(f"the publisher of trust bundles cannot handle {message!r}")

    def reconcile(self, _key: str) -> Reconciliation:
        if not self._bundle:
            yield Because("publishes nothing: the root certificates are unknown (--root-ca-file)")
            return None
        for resource in self._tables.discovered():
            yield from self._metrics.measure(self._publish(resource))
        return RequeueAfter(ARRIVAL_CHECK) if self._tables.arriving() else None

    def _publish(self, resource: Resource) -> Step[None]:
        bundles = self._tables[resource]
        bundles.require(self._name)
        found = bundles.get(self._name)
        if found is None:
            yield Because(f"publishes the ClusterTrustBundle {self._name}, which does not exist")
            spec = {"signerName": SIGNER, "trustBundle": self._bundle}
            yield from must(create(resource, {"metadata": {"name": self._name}, "spec": spec}))
            self._log.info("trust bundle published", key=self._name)
        elif found["spec"].get("trustBundle") != self._bundle:
            yield Because(f"restores the ClusterTrustBundle {self._name}, which was changed")
            yield from must(update(resource, {**found, "spec": {**found["spec"], "trustBundle": self._bundle}}))
            self._log.info("trust bundle restored", key=self._name)
        others = [
            entry
            for entry in bundles.entries()
            if entry.key != self._name and (bundles.object_of(entry).get("spec") or {}).get("signerName") == SIGNER
        ]
        if others:
            yield Because(f"deletes {counted(len(others), 'ClusterTrustBundle')} of earlier root certificates")
        yield from must_all([delete(resource, entry, depends_on=(resource,)) for entry in others], but=(NotFound,))
        for entry in others:
            self._log.info("deleted replaced trust bundle", key=entry.key)


def is_bundle(served: ServedResource) -> bool:
    """Report whether a served resource is clustertrustbundles, in a version that the controller supports."""
    # If the server serves several versions, discovery passes only the version that the server prefers.
    return served.group == GROUP and served.plural == PLURAL and served.version in VERSIONS


def constant_key(_resource: Resource, _change: Change, _tables: Tables) -> Iterable[str]:
    return (KEY,)


def build(context: ControllerContext) -> TrustBundlePublisher:
    return TrustBundlePublisher(
        tables=context.tables,
        authority=root_ca(context),
        metrics=SyncMetrics(context.metrics, context.clock, total=TOTAL, duration=DURATION),
        log=context.log,
    )


SPEC = ControllerSpec(
    name="kube-apiserver-serving-clustertrustbundle-publisher-controller",
    never_blocks=True,
    client="kube-apiserver-serving-clustertrustbundle-publisher",
    build=build,
    enabled_if=lambda options: options.feature_gates[GATE],
    needs=f"--feature-gates={GATE}=true",
    start_checks=(check_root_ca,),
    queues=(Queue(QUEUE, concurrency=1, terminal=()),),
    discovers=Discovered(select=is_bundle, to=constant_key, metadata_only=False),
)
