"""Token cleaner controller: deletes Secrets of bootstrap tokens when they expire.

Input: Secrets of bootstrap tokens in kube-system. Output: their deletions. Key: namespace/name of a Secret. The
controller is disabled by default.

Source: kubernetes v1.36 pkg/controller/bootstrap/tokencleaner.go. Differences:
- A deletion has the resourceVersion as precondition besides the uid, so that a token whose expiry was just extended is
  not deleted.
- Failures are retried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcm.actors.controllers.bootstrap.token_secrets import NAMESPACE, OF_TYPE, TYPE, expiry_of, requeue_until
from kcm.actors.reconciliation import Because, Interest, Reconciliation, Watch, delete, itself, must
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key
from kcm.protocols.resources import SECRETS
from kcm.protocols.times import describe_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class TokenCleaner:
    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._secrets, self._clock, self._log = tables[SECRETS], clock, log

    def reconcile(self, key: Key) -> Reconciliation:
        self._secrets.require(key)
        secret = self._secrets.get(key)
        expiry = None if secret is None or secret.get("type") != TYPE else expiry_of(secret)
        if secret is None or expiry is None:
            return None
        now = self._clock.now()
        if expiry > now:
            yield Because(f"expires at {describe_time(expiry)}")
            return requeue_until(expiry, now=now)
        yield Because(f"expired at {describe_time(expiry)}: deletes it")
        outcome = yield from must(delete(SECRETS, secret, unchanged=True), but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("expired token deleted", key=key)
        return None


def build(context: ControllerContext) -> TokenCleaner:
    return TokenCleaner(tables=context.tables, clock=context.clock, log=context.log)


SPEC = ControllerSpec(
    name="token-cleaner-controller",
    aliases=("tokencleaner",),
    on_by_default=False,
    never_blocks=True,
    client="token-cleaner",
    build=build,
    queues=(
        Queue(
            "token_cleaner",
            watches=(
                Watch(
                    SECRETS,
                    to=itself,
                    namespaces=(NAMESPACE,),
                    fields=OF_TYPE,
                    interest=Interest(types=(EventType.ADDED, EventType.MODIFIED)),
                ),
            ),
            concurrency=1,
            terminal=(),
        ),
    ),
)
