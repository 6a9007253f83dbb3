"""Root CA publisher: maintains the ConfigMap kube-root-ca.crt in each namespace.

Input: namespaces, the ConfigMaps kube-root-ca.crt. Output: the ConfigMaps kube-root-ca.crt. Key: the name of a
namespace.

Source: kubernetes v1.36 pkg/controller/certificates/rootcacertpublisher/publisher.go. Differences:
- A ConfigMap whose creation had an unknown outcome is found by the retry, once the watch has delivered it.
- ConfigMaps with other names are not watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from kcm.actors.controllers.identity.root_ca import check_root_ca, root_ca
from kcm.actors.controllers.identity.service_accounts import ACTIVE, its_namespace
from kcm.actors.controllers.identity.sync_metrics import SyncMetrics, families
from kcm.actors.controllers.shared.pod_control import is_namespace_terminating
from kcm.actors.reconciliation import Because, Change, Interest, Reconciliation, Step, Watch, create, must, update
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, annotations_of, make_key, metadata
from kcm.protocols.resources import CONFIGMAPS, NAMESPACES
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NAME = "kube-root-ca.crt"
DATA_KEY = "ca.crt"
ANNOTATION = "kubernetes.io/description"
# Upstream's text, exactly: otherwise kcm and kube-controller-manager would rewrite it after each fail-over.
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
TOTAL, DURATION = families(
    "root_ca_cert_publisher", help="Number of namespace syncs happened in root ca cert publisher."
)


class RootCaPublisher:
    """Creates the ConfigMap kube-root-ca.crt in each namespace, and restores it after changes.

    authority: root certificates in PEM. If they are unknown (b""), the ConfigMap is published with an empty value.
    """

    def __init__(self, *, tables: Tables, authority: bytes, metrics: SyncMetrics, log: FilteringBoundLogger) -> None:
        self._configmaps = tables[CONFIGMAPS]
        self._data: Mapping[str, str] = MappingProxyType({DATA_KEY: authority.decode("utf-8", "replace")})
        self._metrics, self._log = metrics, log

    def reconcile(self, namespace: Key) -> Reconciliation:
        yield from self._metrics.measure(self._publish(namespace))
        return None

    def _publish(self, namespace: Key) -> Step[None]:
        key = make_key(namespace, NAME)
        self._configmaps.require(key)
        found = self._configmaps.get(key)
        if found is None:
            yield Because(f"has no ConfigMap {NAME}: creates it")
            yield from self._create(namespace, key)
            return
        # The annotation must exist, but its text is not compared: otherwise this controller and a controller of another
        # release, with another text, would overwrite each other's annotation endlessly.
        if (found.get("data") or {}) == self._data and annotations_of(found).get(ANNOTATION):
            return
        yield Because(f"ConfigMap {NAME} differs from the root certificates: restores it")
        meta = {**metadata(found), "annotations": {**annotations_of(found), ANNOTATION: DESCRIPTION}}
        yield from must(update(CONFIGMAPS, {**found, "metadata": meta, "data": dict(self._data)}))
        self._log.info("root certificates restored", key=key)

    def _create(self, namespace: Key, key: Key) -> Step[None]:
        meta = {"name": NAME, "namespace": namespace, "annotations": {ANNOTATION: DESCRIPTION}}
        creation = create(CONFIGMAPS, {"metadata": meta, "data": dict(self._data)})
        outcome = yield creation
        if isinstance(outcome, Done):
            self._log.info("root certificates published", v=2, key=key)
        elif not isinstance(outcome, NotFound) and not is_namespace_terminating(outcome):
            raise CommandError(creation, outcome)


def new_or_active(change: Change, _tables: Tables) -> Iterable[Key]:
    """Yield the key of a namespace that was added, or that was changed and is in the phase Active."""
    if change.type == EventType.ADDED or (
        change.type == EventType.MODIFIED and (change.new.get("status") or {}).get("phase") == ACTIVE
    ):
        yield change.key


def build(context: ControllerContext) -> RootCaPublisher:
    return RootCaPublisher(
        tables=context.tables,
        authority=root_ca(context),
        metrics=SyncMetrics(context.metrics, context.clock, total=TOTAL, duration=DURATION),
        log=context.log,
    )


SPEC = ControllerSpec(
    name="root-ca-certificate-publisher-controller",
    aliases=("root-ca-cert-publisher",),
    never_blocks=True,
    client="root-ca-cert-publisher",
    build=build,
    start_checks=(check_root_ca,),
    queues=(
        Queue(
            "root_ca_cert_publisher",
            watches=(
                Watch(NAMESPACES, to=new_or_active, interest=Interest(types=(EventType.ADDED, EventType.MODIFIED))),
                Watch(
                    CONFIGMAPS,
                    to=its_namespace,
                    fields=f"metadata.name={NAME}",
                    interest=Interest(types=(EventType.MODIFIED, EventType.DELETED)),
                ),
            ),
            concurrency=1,
            terminal=(),
        ),
    ),
)
