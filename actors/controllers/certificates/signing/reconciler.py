"""Reconciler of the signing controller: issues the certificates of approved CertificateSigningRequests.

In: CertificateSigningRequests. Out: status.certificate, or the condition Failed.
Key: the name of a CertificateSigningRequest.

Certificates are signed on a thread outside of the actor, because this reads the CA's files. The status is written with
the resourceVersion of the request as precondition, so that an issued certificate is never replaced.

Source: kubernetes v1.36 pkg/controller/certificates/signer/signer.go. Difference: upstream runs one controller with its
own queue for each signer; here one controller handles the requests for all signers.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.certificates.shared.requests import (
    CERTIFICATE_SIGNING_REQUESTS,
    FAILED,
    has_failed,
    is_approved,
    is_issued,
    pem_of,
    request_content_of,
    spec_of,
    status_of,
)
from kcm.actors.controllers.certificates.signing.rules import RULES, lifetime
from kcm.actors.reconciliation import Because, Reconciliation, Step, call, must, step, update
from kcm.protocols.messages.outcomes import Raised
from kcm.protocols.objects import Key, Object
from kcm.protocols.times import format_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables
from kcm.runtime.x509.key_files import KeyFiles

REASON = "SignerValidationFailure"


class SigningError(ValueError):
    """Raised if the CA could not sign the certificate. The request is retried with backoff."""


def with_failure(request: Object, problem: str, *, now: float) -> Object:
    """Return a copy of the CertificateSigningRequest with the condition Failed. Such a request will never be signed.

    problem: message of the condition.
    now: Unix seconds.
    """
    condition = {
        "type": FAILED,
        "status": "True",
        "reason": REASON,
        "message": problem,
        "lastUpdateTime": format_time(now),
    }
    return _with_status(request, conditions=[*(status_of(request).get("conditions") or ()), condition])


def with_certificate(request: Object, certificate: bytes) -> Object:
    """Return a copy of the CertificateSigningRequest with the issued certificate (PEM) in its status."""
    return _with_status(request, certificate=base64.b64encode(certificate).decode())


def _with_status(request: Object, **changes: Any) -> Object:
    return {**request, "status": {**status_of(request), **changes}}


class Signer:
    """Reconciler that signs approved CertificateSigningRequests, for all enabled signers.

    keys: CA certificate and key of each enabled signer, by the signer's name.
    max_lifetime: value of --cluster-signing-duration in seconds.
    """

    def __init__(self, *, tables: Tables, clock: Clock, keys: Mapping[str, KeyFiles], max_lifetime: float) -> None:
        self._requests = tables[CERTIFICATE_SIGNING_REQUESTS]
        self._clock, self._keys, self._max_lifetime = clock, keys, max_lifetime

    def reconcile(self, key: Key) -> Reconciliation:
        """Issue the certificate of an approved CertificateSigningRequest.

        If the signer rejects the request, its condition Failed is set instead. Source: signer.handle.
        """
        request = self._requests.get(key)
        if request is None or is_issued(request) or has_failed(request):
            return None
        if not is_approved(request):
            yield Because("waits for its approval")
            return None
        spec = spec_of(request)
        signer, usages = spec.get("signerName") or "", list(spec.get("usages") or ())
        keys = self._keys.get(signer)
        if keys is None:
            yield Because(f"is left to another signer: {signer} is not configured here")
            return None
        problem = RULES[signer]((yield from request_content_of(request)), usages)
        if problem:
            yield Because(f"{signer} rejects it: {problem}")
            yield from self._write(with_failure(request, problem, now=self._clock.now()))
            return None
        seconds = lifetime(spec.get("expirationSeconds"), most=self._max_lifetime)
        yield Because(f"is approved: {signer} signs it for {seconds:.0f} s")
        signed: Any = yield from call(keys.sign, pem_of(request), usages, seconds, self._clock.now(), but=(ValueError,))
        if isinstance(signed, Raised):
            raise SigningError(f"error auto signing csr: {signed.message.partition(': ')[2]}")
        yield from self._write(with_certificate(request, signed))
        return None

    @step
    def _write(self, request: Object) -> Step[None]:
        yield from must(update(CERTIFICATE_SIGNING_REQUESTS, request, subresource="status"))
