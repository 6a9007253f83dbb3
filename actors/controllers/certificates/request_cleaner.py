"""CertificateSigningRequest cleaner: deletes requests that are finished or have been pending for too long.

In: CertificateSigningRequests. Out: deletions. Every hour it looks at all of them, and deletes those that were

- issued, and approved more than an hour ago,
- denied more than an hour ago,
- given up as failed more than an hour ago,
- created more than a day ago, and neither approved, denied nor given up,
- issued a certificate that has expired,
- approved more than a day ago, and never issued.

Source: kubernetes v1.36 pkg/controller/certificates/cleaner/cleaner.go. Differences:
- It begins once it has seen all requests; upstream's first look is usually at none.
- A request that has changed since it was looked at stays until the next look.
- Where a deletion fails it looks again after 10 s, 20 s, … and not after an hour.
- Certificates are read apart from the actor, by a call, since cryptography is slow to load.
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
from kcm.actors.reconciliation import Reconciliation, Step, batches, call, delete, step, together
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
from kcm.protocols.objects import Object, metadata
from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

PERIOD = 3600.0  # seconds
AFTER_APPROVAL = AFTER_DENIAL = 3600.0
PENDING = 24 * 3600.0
BATCH = 100  # requests that are deleted, or whose certificates are read, together

EXPIRED = "Cleaning CSR as the associated certificate is expired."


def reason_to_clean(request: Object, *, now: float, expires: float | None) -> str:
    """Why it goes, as upstream logs it; "" if it stays. expires: when its certificate ends, in Unix seconds; None
    without one that can be read.
    """
    if is_issued(request) and _is_since(request, APPROVED, now - AFTER_APPROVAL):
        return "Cleaning CSR as it is more than approvedExpiration duration old and approved."
    if _is_since(request, DENIED, now - AFTER_DENIAL):
        return "Cleaning CSR as it is more than deniedExpiration duration old and denied."
    if _is_since(request, FAILED, now - AFTER_DENIAL):
        return "Cleaning CSR as it is more than deniedExpiration duration old and failed."
    if not any(conditions_of(request)) and _is_before(metadata(request).get("creationTimestamp"), now - PENDING):
        return "Cleaning CSR as it is more than pendingExpiration duration old and unhandled."
    if is_issued(request) and has_condition(request, APPROVED) and expires is not None and now > expires:
        return EXPIRED
    if not is_issued(request) and _is_since(request, APPROVED, now - PENDING):
        return "Cleaning CSR as it is approved but unissued for more than pendingExpiration duration."
    return ""


def _is_since(request: Object, kind: str, before: float) -> bool:
    """Whether it has this condition, and had it before then."""
    return any(
        one.get("type") == kind and _is_before(one.get("lastUpdateTime"), before) for one in conditions_of(request)
    )


def _is_before(time: Any, before: float) -> bool:
    """Report whether a time is set, and before the given one. Raises ValueError for an invalid time."""
    return bool(time) and parse_time(time) < before


def read_ends(certificates: Sequence[bytes]) -> list[float | None]:
    """When each of these ends, for a call from outside; None for one that cannot be read. certificates: PEM."""
    from kcm.runtime.x509.authority import end_of_certificate  # heavy: cryptography

    return [end_of_certificate(one) for one in certificates]


class RequestCleaner:
    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._requests = tables[CERTIFICATE_SIGNING_REQUESTS]
        self._clock, self._log = clock, log

    def clean(self) -> Reconciliation:
        """One look at all requests."""
        entries = [one for one in self._requests.entries() if not self._requests.is_unreadable(one.key)]
        doomed = [entry for entry in entries if self._reason(entry, None)]
        gone = {entry.key for entry in doomed}
        failures = yield from self._delete(doomed)
        issued = [
            entry
            for entry in entries
            if entry.key not in gone and is_issued(request := self._object(entry)) and has_condition(request, APPROVED)
        ]
        for some in batches(issued, BATCH):
            ends = yield from call(read_ends, [_certificate(self._object(one)) for one in some], key="certificates")
            expired = [entry for entry, end in zip(some, ends, strict=True) if self._reason(entry, end)]
            failures += yield from self._delete(expired)
        if failures:
            raise failures[0]
        return None

    def _object(self, entry: Entry) -> Object:
        return self._requests.object_of(entry)

    def _reason(self, entry: Entry, expires: float | None) -> str:
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
        """Returns what could not be deleted."""
        failures: list[CommandError] = []
        for some in batches(entries, BATCH):
            depends = [((CERTIFICATE_SIGNING_REQUESTS, entry.key),) for entry in some]
            commands = [
                delete(CERTIFICATE_SIGNING_REQUESTS, entry, unchanged=True, depends_on=on)
                for entry, on in zip(some, depends, strict=True)
            ]
            outcomes = yield from together(commands)
            for entry, command, outcome in zip(some, commands, outcomes, strict=True):
                if not isinstance(outcome, Done | NotFound | Conflict):
                    self._log.error("Error while attempting to clean CSR", csr=entry.key, error=outcome.message)
                    failures.append(CommandError(command, outcome))
        return failures


def _certificate(request: Object) -> bytes:
    """Return the certificate (PEM). Invalid base64 counts as no certificate."""
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
