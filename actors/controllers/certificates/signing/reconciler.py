"""What the signing controller does with one request.

In: CertificateSigningRequests. Out: status.certificate, or the condition Failed. Key: a request's name.

The certificate and key are files, which are read and used apart from the actor, by a call. A certificate is written
with the version that was looked at as its precondition, so that none is ever replaced.

Source: kubernetes v1.36 pkg/controller/certificates/signer/signer.go. Upstream has a controller and a queue for each
signer; here one has the requests of all.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.certificates.shared.requests import (
    CERTIFICATE_SIGNING_REQUESTS,
    FAILED,
    asked,
    has_failed,
    is_approved,
    is_issued,
    pem_of,
    spec_of,
    status_of,
)
from kcm.actors.controllers.certificates.signing.rules import RULES, lifetime
from kcm.actors.reconciliation import Reconciliation, Step, call, must, step, update
from kcm.protocols.messages.outcomes import Raised
from kcm.protocols.objects import Key, Object
from kcm.protocols.times import format_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables
from kcm.runtime.x509.key_files import KeyFiles

REASON = "SignerValidationFailure"


class SigningError(ValueError):
    """The authority could not sign; the key is tried again."""


def failed(request: Object, problem: str, *, now: float) -> Object:
    """The request with the condition that it is never signed. now: Unix seconds."""
    condition = {
        "type": FAILED,
        "status": "True",
        "reason": REASON,
        "message": problem,
        "lastUpdateTime": format_time(now),
    }
    return _with_status(request, conditions=[*(status_of(request).get("conditions") or ()), condition])


def issued(request: Object, certificate: bytes) -> Object:
    """certificate: PEM."""
    return _with_status(request, certificate=base64.b64encode(certificate).decode())


def _with_status(request: Object, **changes: Any) -> Object:
    return {**request, "status": {**status_of(request), **changes}}


class Signer:
    def __init__(self, *, tables: Tables, clock: Clock, keys: Mapping[str, KeyFiles], longest: float) -> None:
        """keys: by the signer's name. longest: seconds that certificates are valid, at most."""
        self._requests = tables[CERTIFICATE_SIGNING_REQUESTS]
        self._clock, self._keys, self._longest = clock, keys, longest

    def reconcile(self, key: Key) -> Reconciliation:
        request = self._requests.get(key)
        if request is None or is_issued(request) or not is_approved(request) or has_failed(request):
            return None
        spec = spec_of(request)
        signer, usages = spec.get("signerName") or "", list(spec.get("usages") or ())
        keys = self._keys.get(signer)
        if keys is None:
            return None
        problem = RULES[signer]((yield from asked(request)), usages)
        if problem:
            yield from self._write(failed(request, problem, now=self._clock.now()))
            return None
        seconds = lifetime(spec.get("expirationSeconds"), most=self._longest)
        made: Any = yield from call(keys.sign, pem_of(request), usages, seconds, self._clock.now(), but=(ValueError,))
        if isinstance(made, Raised):
            raise SigningError(f"error auto signing csr: {made.message.partition(': ')[2]}")
        yield from self._write(issued(request, made))
        return None

    @step
    def _write(self, request: Object) -> Step[None]:
        yield from must(update(CERTIFICATE_SIGNING_REQUESTS, request, subresource="status"))
