"""Work queue declaration that the approver and the signer of CertificateSigningRequests share.

Its name and backoff are those of upstream's queues.

Source: kubernetes v1.36 pkg/controller/certificates/certificate_controller.go, NewCertificateController.
"""

from __future__ import annotations

from collections.abc import Callable

from kcm.actors.controllers.certificates.shared.requests import CERTIFICATE_SIGNING_REQUESTS
from kcm.actors.options import Options
from kcm.actors.reconciliation import Watch, itself
from kcm.actors.reconciliation.specs import Queue
from kcm.protocols.objects import Key
from kcm.runtime.scheduling.backoff import Backoff

WORKERS = 5  # of the approver, and of each signer, as in upstream's app/certificates.go


def certificate_queue(concurrency: int | Callable[[Options], int] = WORKERS) -> Queue[object, Key]:
    return Queue(
        "certificate",
        watches=(Watch(CERTIFICATE_SIGNING_REQUESTS, to=itself),),
        concurrency=concurrency,
        terminal=(),
        backoff=Backoff(first=0.2, most=1000.0),
    )
