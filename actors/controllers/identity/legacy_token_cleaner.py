"""Legacy service account token cleaner: deletes unused token Secrets that were created automatically.

Releases before 1.24 created a token Secret for each service account. The cleaner labels such a Secret as invalid if it
was not used for --legacy-service-account-token-clean-up-period and no pod mounts it, and deletes it after another such
period. It runs once a day.

Input: token Secrets, ServiceAccounts, pods, and the ConfigMap with the date since which the API server has tracked the
use of tokens. Output: labels of Secrets, deletions of Secrets.

Source: kubernetes v1.36 pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go. Differences:
- Failures and conflicts are retried after some seconds, not a day later.
- While a pod of a namespace is unreadable, no Secret of the namespace is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.identity.token_secrets import OF_TYPE, account_name, account_uid, secrets_of
from kcm.actors.options import ControllerOptions, Options
from kcm.actors.reconciliation import Because, Read, Reconciliation, delete, get_live, must, patch, together
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.mounted_secrets import secret_names
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    is_deleting,
    labels_of,
    make_key,
    metadata,
    name_of,
    uid_of,
)
from kcm.protocols.resources import CONFIGMAPS, PODS, SECRETS, SERVICE_ACCOUNTS
from kcm.protocols.times import describe_time, format_time, parse_time
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# ConfigMap of the API server. Its field `since` is the date since which LAST_USED is written.
TRACKING = "kube-system/kube-apiserver-legacy-service-account-token-tracking"
SINCE = "since"
LAST_USED = "kubernetes.io/legacy-token-last-used"  # label with a date, written by the API server
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"  # label with a date; the API server rejects such a token
DAY = 24 * 3600.0
YEAR = 365 * DAY


class LegacyTokenCleanerOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "LegacySATokenCleaner"

    clean_up_period: float = flag(
        YEAR,
        "Time without use after which legacy service account token Secrets are deleted.",
        name="legacy-service-account-token-clean-up-period",
        kind=DURATION,
        config="CleanUpPeriod",
    )


def check_period(options: Options) -> Iterator[str]:
    period = options[LegacyTokenCleanerOptions].clean_up_period
    if period <= 0:
        shown = DURATION.show(period)
        yield f"failed to start the legacy service account token cleaner: invalid CleanUpPeriod: {shown}"


def read_date(text: str) -> float | None:
    """Parse a date in the form "2026-01-31". Return its midnight (UTC) in Unix seconds; None if it is malformed."""
    if len(text) != len("2026-01-31"):
        return None
    try:
        return parse_time(f"{text}T00:00:00Z")
    except ValueError:
        return None


def date_of(seconds: float) -> str:
    return format_time(seconds)[: len("2026-01-31")]


def is_unused(secret: Mapping[str, Any], *, before: float) -> bool:
    """Report whether a token Secret was created and last used before a given time, and is not being deleted.

    before: Unix seconds. The last use is known only by its date, which must be before the date of this time.
    """
    created = metadata(secret).get("creationTimestamp")
    if not created or parse_time(created) >= before or is_deleting(secret):
        return False
    used = labels_of(secret).get(LAST_USED)
    return used is None or (read_date(used) is not None and used < date_of(before))


class LegacyTokenCleaner:
    """Labels and deletes unused token Secrets.

    period: value of --legacy-service-account-token-clean-up-period in seconds.
    """

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, period: float) -> None:
        self._secrets, self._accounts, self._pods = tables[SECRETS], tables[SERVICE_ACCOUNTS], tables[PODS]
        self._clock, self._log, self._period = clock, log, period

    def clean(self) -> Reconciliation:
        """Label or delete all unused token Secrets.

        Raises CommandError for the first failed write, after all writes were sent.
        """
        outcome = yield from must(get_live(CONFIGMAPS, TRACKING), but=(NotFound,))
        since = None
        if isinstance(outcome, Done):
            since = read_date((decode_object(outcome.body).get("data") or {}).get(SINCE) or "")
        if since is None:
            yield Because(f"deletes nothing: the ConfigMap {TRACKING} has no valid date since which tokens are tracked")
            self._log.error("start of token usage tracking is unknown, deleting nothing", key=TRACKING)
            return None
        now = self._clock.now()
        # Tracking may have begun late on the day `since`, so one more day must have passed.
        if now < since + DAY + self._period:
            start = describe_time(since + DAY + self._period)
            yield Because(f"deletes nothing before {start}: tokens are tracked since {describe_time(since)}")
            return None
        commands = list(self._commands(now))
        if commands:
            yield Because(
                f"{counted(len(commands), 'token Secret')} unused for the clean-up period: marks or deletes them"
            )
        outcomes = yield from together(commands)
        failures = [
            CommandError(command, outcome)
            for command, outcome in zip(commands, outcomes, strict=True)
            if not isinstance(outcome, Done | NotFound)
        ]
        if failures:
            raise failures[0]
        return None

    def _commands(self, now: float) -> Iterator[Command]:
        before = now - self._period
        mounted: dict[str, frozenset[str] | None] = {}
        for entry in self._secrets.entries():
            secret = self._secrets.object_of(entry)
            if not is_unused(secret, before=before) or not self._is_auto_generated(secret):
                continue
            namespace = metadata(secret)["namespace"]
            if namespace not in mounted:
                mounted[namespace] = self._mounted_secrets(namespace)
            names = mounted[namespace]
            if names is None or name_of(secret) in names:
                continue
            invalid_since = labels_of(secret).get(INVALID_SINCE, "")
            if read_date(invalid_since) is None:
                self._log.info("token marked as invalid", key=entry.key, since=date_of(now))
                yield _invalidation(entry.key, secret, date_of(now))
            elif invalid_since < date_of(before):
                self._log.info("unused token deleted", key=entry.key, invalid_since=invalid_since)
                yield delete(SECRETS, entry, unchanged=True)

    def _is_auto_generated(self, secret: Object) -> bool:
        # The `secrets` of an account list the Secrets that were created automatically, unless a user has added others.
        name = account_name(secret)
        account = self._accounts.get(make_key(metadata(secret)["namespace"], name)) if name else None
        if account is None or account_uid(secret) not in ("", uid_of(account)):
            return False
        return name_of(secret) in secrets_of(account)

    def _mounted_secrets(self, namespace: str) -> frozenset[str] | None:
        """Return the names of all Secrets that pods of the namespace refer to; None if a pod is unreadable."""
        if self._pods.unreadable(namespace):
            return None
        return frozenset().union(*(secret_names(pod) for pod in self._pods.objects(namespace)))


def _invalidation(key: Key, secret: Object, since: str) -> Command:
    return patch(SECRETS, key, {"metadata": {"uid": uid_of(secret), "labels": {INVALID_SINCE: since}}})


def build(context: ControllerContext) -> LegacyTokenCleaner:
    return LegacyTokenCleaner(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        period=context.options[LegacyTokenCleanerOptions].clean_up_period,
    )


SPEC = ControllerSpec(
    name="legacy-serviceaccount-token-cleaner-controller",
    aliases=("legacy-service-account-token-cleaner",),
    never_blocks=True,
    client="legacy-service-account-token-cleaner",
    build=build,
    reads=(SERVICE_ACCOUNTS, Read(SECRETS, fields=OF_TYPE), PODS),
    passes=(Pass("tokens", every=DAY, run=LegacyTokenCleaner.clean),),
    options=LegacyTokenCleanerOptions,
    start_checks=(check_period,),
)
