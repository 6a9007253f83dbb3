"""PodCertificateRequest cleaner: deletes PodCertificateRequests that are older than 15 minutes, whatever their state.

In: PodCertificateRequests. Out: deletions, with the uid as precondition. A pass over all requests runs every five
minutes.

The controller runs if the feature gate PodCertificateRequest is enabled. Up to 1.36 it reads
certificates.k8s.io/v1beta1, which API servers do not serve by default, and from 1.37 on certificates.k8s.io/v1. If it
is not served, the informer logs an error and retries, and the controller does nothing.

Source: kubernetes v1.36 pkg/controller/certificates/cleaner/pcrcleaner.go. Difference: after a failed deletion the pass
is repeated after 10 s, 20 s, …, not after five minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kcm.actors.options import Options
from kcm.actors.options.versions import BINARY
from kcm.actors.reconciliation import Because, Reconciliation, batches, delete, together
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass
from kcm.protocols.integers import counted
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


def _in_version(version: str) -> Resource:
    return Resource(
        group="certificates.k8s.io", version=version, plural="podcertificaterequests", kind="PodCertificateRequest"
    )


POD_CERTIFICATE_REQUESTS = _in_version("v1beta1")
STABLE_REQUESTS = _in_version("v1")  # of 1.37
GATE = "PodCertificateRequest"
PERIOD = 300.0  # seconds between two passes
LIFE = 900.0  # seconds after which a request is deleted; signers must issue, deny or fail it before
BATCH = 100  # number of concurrent deletions


def is_expired(request: Object, *, now: float) -> bool:
    """Report whether a PodCertificateRequest is older than 15 minutes.

    now: Unix seconds.
    Raises ValueError if the creationTimestamp is missing or malformed.
    """
    return now >= parse_time(metadata(request).get("creationTimestamp") or "") + LIFE


class PodRequestCleaner:
    """Periodic pass that deletes expired PodCertificateRequests."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        resource: Resource = POD_CERTIFICATE_REQUESTS,
    ) -> None:
        self._requests, self._resource = tables[resource], resource
        self._clock, self._log = clock, log

    def clean(self) -> Reconciliation:
        """Delete the PodCertificateRequests that are older than 15 minutes.

        Raises CommandError for the first failed deletion, after all deletions have been sent.
        """
        expired = [entry for entry in self._requests.entries() if self._is_expired(entry)]
        if expired:
            yield Because(f"deletes {counted(len(expired), 'PodCertificateRequest')} older than {LIFE:.0f} s")
        failures: list[CommandError] = []
        for batch in batches(expired, BATCH):
            commands = [delete(self._resource, entry, depends_on=((self._resource, entry.key),)) for entry in batch]
            outcomes = yield from together(commands)
            for entry, command, outcome in zip(batch, commands, outcomes, strict=True):
                if not isinstance(outcome, Done | NotFound | Conflict):
                    self._log_error(entry, outcome.message)
                    failures.append(CommandError(command, outcome))
        if failures:
            raise failures[0]
        return None

    def _is_expired(self, entry: Entry) -> bool:
        if self._requests.is_unreadable(entry.key):
            return False
        try:
            return is_expired(self._requests.object_of(entry), now=self._clock.now())
        except ValueError as err:
            self._log_error(entry, str(err))
            return False

    def _log_error(self, entry: Entry, error: str) -> None:
        self._log.error("Error while attempting to clean PodCertificateRequest", pcr=entry.key, error=error)


def is_enabled(options: Options) -> bool:
    return options.feature_gates[GATE]


def requests_of(options: Options) -> Resource:
    """Return the resource in the version that API servers of the emulated release serve."""
    return STABLE_REQUESTS if options.versions.emulation > BINARY else POD_CERTIFICATE_REQUESTS


def _of_release(spec: ControllerSpec, options: Options) -> ControllerSpec:
    return replace(spec, reads=(requests_of(options),))


def _build(context: ControllerContext) -> PodRequestCleaner:
    return PodRequestCleaner(
        tables=context.tables, clock=context.clock, log=context.log, resource=requests_of(context.options)
    )


SPEC = ControllerSpec(
    name="podcertificaterequest-cleaner-controller",
    never_blocks=True,
    client="podcertificaterequestcleaner",
    passes=(Pass("requests", every=PERIOD, run=PodRequestCleaner.clean),),
    reads=(POD_CERTIFICATE_REQUESTS,),
    build=_build,
    adapted=_of_release,
    enabled_if=is_enabled,
    needs="--feature-gates=PodCertificateRequest=true",
)
