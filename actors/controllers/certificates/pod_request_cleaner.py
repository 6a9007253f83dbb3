"""podcertificaterequest-cleaner-controller: deletes PodCertificateRequests that are older than 15 minutes.

In: PodCertificateRequests. Out: deletions, by uid. Every five minutes it looks at all of them, whatever became of them.

It runs where the feature gate PodCertificateRequest is on. A server does not serve certificates.k8s.io/v1beta1 by
default; until it does there is nothing to look at, and the informer of this resource says so and tries again.

Source: kubernetes v1.36 pkg/controller/certificates/cleaner/pcrcleaner.go. Where a deletion fails it looks again after
10 s, 20 s, …, and not after five minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcm.actors.options import Options
from kcm.actors.reconciliation import Reconciliation, batches, delete, together
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
from kcm.protocols.objects import Object, metadata
from kcm.protocols.resources import Resource
from kcm.protocols.times import parse_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

POD_CERTIFICATE_REQUESTS = Resource(
    group="certificates.k8s.io",
    version="v1beta1",
    plural="podcertificaterequests",
    kind="PodCertificateRequest",
)
GATE = "PodCertificateRequest"
PERIOD = 300.0  # seconds
LIFE = 900.0  # seconds; all is over sooner than that, one way or the other
BATCH = 100  # requests that are deleted together


def is_over(request: Object, *, now: float) -> bool:
    """now: Unix seconds. Raises ValueError where the object does not say when it was made."""
    return now >= parse_time(metadata(request).get("creationTimestamp") or "") + LIFE


class PodRequestCleaner:
    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._requests = tables[POD_CERTIFICATE_REQUESTS]
        self._clock, self._log = clock, log

    def clean(self) -> Reconciliation:
        """One look at all requests."""
        over = [entry for entry in self._requests.entries() if self._is_over(entry)]
        failures: list[CommandError] = []
        for some in batches(over, BATCH):
            commands = [
                delete(POD_CERTIFICATE_REQUESTS, entry, depends_on=((POD_CERTIFICATE_REQUESTS, entry.key),))
                for entry in some
            ]
            outcomes = yield from together(commands)
            for entry, command, outcome in zip(some, commands, outcomes, strict=True):
                if not isinstance(outcome, Done | NotFound | Conflict):
                    self._complain(entry, outcome.message)
                    failures.append(CommandError(command, outcome))
        if failures:
            raise failures[0]
        return None

    def _is_over(self, entry: Entry) -> bool:
        if self._requests.is_unreadable(entry.key):
            return False
        try:
            return is_over(self._requests.object_of(entry), now=self._clock.now())
        except ValueError as err:
            self._complain(entry, str(err))
            return False

    def _complain(self, entry: Entry, error: str) -> None:
        self._log.error("Error while attempting to clean PodCertificateRequest", pcr=entry.key, error=error)


def is_wanted(options: Options) -> bool:
    return options.feature_gates[GATE]


def _build(context: ControllerContext) -> PodRequestCleaner:
    return PodRequestCleaner(tables=context.tables, clock=context.clock, log=context.log)


SPEC = ControllerSpec(
    name="podcertificaterequest-cleaner-controller",
    never_blocks=True,
    client="podcertificaterequestcleaner",
    passes=(Pass("requests", every=PERIOD, run=PodRequestCleaner.clean),),
    reads=(POD_CERTIFICATE_REQUESTS,),
    build=_build,
    enabled_if=is_wanted,
    needs="--feature-gates=PodCertificateRequest=true",
)
