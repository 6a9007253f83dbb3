"""CertificateSigningRequest cleaner: deletes requests that are finished or have been pending for too long.

In: CertificateSigningRequests. Out: deletions, with uid and resourceVersion as preconditions. A pass every hour deletes
each request

- whose certificate was issued, and that was approved more than an hour ago,
- that was denied more than an hour ago,
- whose condition Failed is older than an hour,
- that was created more than a day ago and has no condition,
- whose certificate has expired, or
- that was approved more than a day ago and has no certificate.

Source: kubernetes v1.36 pkg/controller/certificates/cleaner/cleaner.go. Differences:
- The first pass runs when the informer has synced. Upstream's first pass usually sees an empty cache.
- A request that has changed since the pass read it is kept until the next pass.
- After a failed deletion the pass is repeated after 10 s, 20 s, …, not after an hour.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.certificates.shared.requests import (
    APPROVED,
    CERTIFICATE_SIGNING_REQUESTS,
    DENIED,
    FAILED,
    conditions_of,
    has_condition,
    is_issued,
    status_of,
)
from kcm.actors.reconciliation import Because, Reconciliation, Step, batches, call, delete, step, together
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
from kcm.protocols.objects import Object, metadata
from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

PERIOD = 3600.0  # seconds between two passes
# Ages after which requests are deleted, in seconds; upstream's approvedExpiration, deniedExpiration, pendingExpiration.
AFTER_APPROVAL = AFTER_DENIAL = 3600.0
PENDING = 24 * 3600.0
BATCH = 100  # number of concurrent deletions, and of certificates that one call parses
MOST_NAMED = 5  # requests that a reason names

EXPIRED = "Cleaning CSR as the associated certificate is expired."


def reason_to_clean(request: Object, *, now: float, expires: float | None) -> str:
    """Return the reason to delete a CertificateSigningRequest, as upstream's log message; "" if it must be kept.

    now: Unix seconds.
    expires: expiry of the issued certificate in Unix seconds; None if there is no certificate or it is malformed.
    Raises ValueError if a timestamp of the request is malformed.
    """
    if is_issued(request) and _has_condition_before(request, APPROVED, now - AFTER_APPROVAL):
        return "Cleaning CSR as it is more than approvedExpiration duration old and approved."
    if _has_condition_before(request, DENIED, now - AFTER_DENIAL):
        return "Cleaning CSR as it is more than deniedExpiration duration old and denied."
    if _has_condition_before(request, FAILED, now - AFTER_DENIAL):
        return "Cleaning CSR as it is more than deniedExpiration duration old and failed."
    if not any(conditions_of(request)) and _is_before(metadata(request).get("creationTimestamp"), now - PENDING):
        return "Cleaning CSR as it is more than pendingExpiration duration old and unhandled."
    if is_issued(request) and has_condition(request, APPROVED) and expires is not None and now > expires:
        return EXPIRED
    if not is_issued(request) and _has_condition_before(request, APPROVED, now - PENDING):
        return "Cleaning CSR as it is approved but unissued for more than pendingExpiration duration."
    return ""


def _has_condition_before(request: Object, kind: str, before: float) -> bool:
    """Report whether a CertificateSigningRequest has a condition that was last updated before a time.

    kind: type of the condition.
    before: Unix seconds.
    """
    return any(
        condition.get("type") == kind and _is_before(condition.get("lastUpdateTime"), before)
        for condition in conditions_of(request)
    )


def _is_before(time: Any, before: float) -> bool:
    """Report whether a timestamp is set, and is before a time in Unix seconds. Raises ValueError if it is malformed."""
    return bool(time) and parse_time(time) < before


def read_expiries(certificates: Sequence[bytes]) -> list[float | None]:
    """Return the expiry of each certificate (PEM) in Unix seconds; None for a malformed certificate.

    Runs on a thread outside of the actor, because it imports the library cryptography, which is slow.
    """
    from kcm.runtime.x509.authority import end_of_certificate

    return [end_of_certificate(certificate) for certificate in certificates]


class RequestCleaner:
    """Periodic pass that deletes CertificateSigningRequests that are not needed any more."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._requests = tables[CERTIFICATE_SIGNING_REQUESTS]
        self._clock, self._log = clock, log

    def clean(self) -> Reconciliation:
        """Delete the CertificateSigningRequests that are finished or expired, or have been pending for too long.

        Raises CommandError for the first failed deletion, after all deletions have been sent.
        """
        entries = [entry for entry in self._requests.entries() if not self._requests.is_unreadable(entry.key)]
        # Most requests are decided by their conditions alone; only the certificates of the others are parsed.
        due = [entry for entry in entries if self._reason(entry, None)]
        deleted = {entry.key for entry in due}
        failures = yield from self._delete(due)
        with_certificate = [
            entry
            for entry in entries
            if entry.key not in deleted
            and is_issued(request := self._object(entry))
            and has_condition(request, APPROVED)
        ]
        for batch in batches(with_certificate, BATCH):
            certificates = [_certificate(self._object(entry)) for entry in batch]
            expiries = yield from call(read_expiries, certificates, key="certificates")
            expired = [entry for entry, end in zip(batch, expiries, strict=True) if self._reason(entry, end)]
            failures += yield from self._delete(expired)
        if failures:
            raise failures[0]
        return None

    def _object(self, entry: Entry) -> Object:
        return self._requests.object_of(entry)

    def _reason(self, entry: Entry, expires: float | None) -> str:
        """Return the reason to delete a CertificateSigningRequest, and log it; "" if the request must be kept."""
        try:
            reason = reason_to_clean(self._object(entry), now=self._clock.now(), expires=expires)
        except ValueError as err:
            self._log.warning("Error while attempting to clean CSR", csr=entry.key, error=str(err))
            return ""
        if reason:
            self._log.info(reason, csr=entry.key)
        return reason

    @step
    def _delete(self, entries: Sequence[Entry]) -> Step[list[CommandError]]:
        """Delete these CertificateSigningRequests. Returns the errors of failed deletions, which are also logged."""
        if entries:
            names = ", ".join(entry.key for entry in entries[:MOST_NAMED])
            yield Because(
                f"deletes {counted(len(entries), 'request')} that are finished, expired or pending too long: {names}"
            )
        failures: list[CommandError] = []
        for batch in batches(entries, BATCH):
            depends = [((CERTIFICATE_SIGNING_REQUESTS, entry.key),) for entry in batch]
            commands = [
                delete(CERTIFICATE_SIGNING_REQUESTS, entry, unchanged=True, depends_on=on)
                for entry, on in zip(batch, depends, strict=True)
            ]
            outcomes = yield from together(commands)
            for entry, command, outcome in zip(batch, commands, outcomes, strict=True):
                if not isinstance(outcome, Done | NotFound | Conflict):
                    self._log.error("Error while attempting to clean CSR", csr=entry.key, error=outcome.message)
                    failures.append(CommandError(command, outcome))
        return failures


def _certificate(request: Object) -> bytes:
    """Return the issued certificate in PEM; empty if its base64 encoding is invalid."""
    try:
        return base64.b64decode(status_of(request)["certificate"])
    except (ValueError, TypeError):
        return b""


def _build(context: ControllerContext) -> RequestCleaner:
    return RequestCleaner(tables=context.tables, clock=context.clock, log=context.log)


SPEC = ControllerSpec(
    name="certificatesigningrequest-cleaner-controller",
    aliases=("csrcleaner",),
    never_blocks=True,
    client="certificate-controller",
    passes=(Pass("requests", every=PERIOD, run=RequestCleaner.clean),),
    reads=(CERTIFICATE_SIGNING_REQUESTS,),
    build=_build,
)
