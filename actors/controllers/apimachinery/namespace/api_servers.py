"""How long objects may still be created in a namespace after its deletion was seen.

An API server refuses creations in a namespace as soon as it knows that it is being deleted. The one that carried the
deletion out knows at once; what it admitted before is stored within moments. Others follow a watch, which may be late,
so upstream leaves every namespace alone for 5 s. We begin at once, and take nothing for empty before that time is over.
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
    """Seconds, by how many API servers there are: as their Leases say, else the endpoints of Service kubernetes."""
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
