"""The time during which objects may still be created in a namespace after its deletion was observed.

An API server rejects creations in a namespace from the moment it observes the deletion. The server that handled the
deletion observes it at once, and objects that it admitted before are stored within moments. Other servers depend on a
watch, which may be late; for this reason upstream waits 5 s before it starts. This controller starts at once, and does
not consider a namespace empty before that time is over.
"""

from __future__ import annotations

from kcm.actors.reconciliation import Step, list_live, perform, step
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.objects import decode_object
from kcm.protocols.resources import ENDPOINT_SLICES, LEASES

ALONE = 1.0  # seconds with a single API server
SEVERAL = 5.0  # seconds, as upstream's namespaceDeletionGracePeriod
IDENTITIES = "apiserver.kubernetes.io/identity=kube-apiserver"
OF_KUBERNETES = "kubernetes.io/service-name=kubernetes"


@step
def creations_end_after() -> Step[float]:
    """Return the seconds after which no objects can be created, which depend on the number of API servers.

    The servers are counted by their Leases, or else by the endpoints of the Service kubernetes.
    """
    outcome = yield from perform(list_live(LEASES, "kube-system", label_selector=IDENTITIES))
    if not isinstance(outcome, Done):
        return SEVERAL
    servers = len(decode_object(outcome.body).get("items") or ())
    if servers == 0:
        outcome = yield from perform(list_live(ENDPOINT_SLICES, "default", label_selector=OF_KUBERNETES))
        slices = decode_object(outcome.body).get("items") or () if isinstance(outcome, Done) else ()
        endpoints = (endpoint for slice_ in slices for endpoint in slice_.get("endpoints") or ())
        servers = len({address for endpoint in endpoints for address in endpoint.get("addresses") or ()})
    return ALONE if servers == 1 else SEVERAL
