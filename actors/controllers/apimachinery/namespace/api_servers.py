"""Estimate of the time during which API servers may still create objects in a namespace that is being deleted.

An API server rejects creations in a namespace once it has observed the namespace's deletion. The server that handled
the deletion observes it at once, and stores the objects that it admitted before within moments. Other servers learn of
it from a watch, which may be late; for this reason upstream waits 5 s before it deletes the content. This controller
deletes at once, but does not finalize a namespace as empty before that time is over.
"""

from __future__ import annotations

from kcm.actors.reconciliation import Step, list_live, perform, step
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.objects import decode_object
from kcm.protocols.resources import ENDPOINT_SLICES, LEASES

SINGLE_SERVER = 1.0  # seconds if there is a single API server
SEVERAL_SERVERS = 5.0  # seconds, as upstream's namespaceDeletionGracePeriod
IDENTITIES = "apiserver.kubernetes.io/identity=kube-apiserver"
OF_KUBERNETES = "kubernetes.io/service-name=kubernetes"


@step
def creation_window() -> Step[float]:
    """Return how many seconds after a namespace's deletion objects may still be created in it.

    This is SINGLE_SERVER or SEVERAL_SERVERS, depending on the number of API servers. They are counted by their identity
    Leases, or by the endpoints of the Service kubernetes if there are no Leases. If the Leases cannot be listed, the
    result is SEVERAL_SERVERS.
    """
    outcome = yield from perform(list_live(LEASES, "kube-system", label_selector=IDENTITIES))
    if not isinstance(outcome, Done):
        return SEVERAL_SERVERS
    servers = len(decode_object(outcome.body).get("items") or ())
    if servers == 0:
        outcome = yield from perform(list_live(ENDPOINT_SLICES, "default", label_selector=OF_KUBERNETES))
        slices = decode_object(outcome.body).get("items") or () if isinstance(outcome, Done) else ()
        endpoints = (endpoint for slice_ in slices for endpoint in slice_.get("endpoints") or ())
        servers = len({address for endpoint in endpoints for address in endpoint.get("addresses") or ()})
    return SINGLE_SERVER if servers == 1 else SEVERAL_SERVERS
