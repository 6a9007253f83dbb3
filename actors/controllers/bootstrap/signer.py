"""Bootstrap signer controller: signs the ConfigMap kube-public/cluster-info with bootstrap tokens.

A joining node reads this ConfigMap without authentication, and trusts it if it contains a valid signature with the
node's token. The ConfigMap gets a signature for each token whose Secret permits signing (usage-bootstrap-signing).

Input: the ConfigMap, Secrets of bootstrap tokens. Output: signatures in the ConfigMap. Key: always the ConfigMap's. The
controller is disabled by default.

Source: kubernetes v1.36 pkg/controller/bootstrap/bootstrapsigner.go. Differences:
- Failures are retried.
- The signature of a token is removed when the token expires, not only when its Secret is deleted.
- While the Secret of a token is unreadable, its signature is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcm.actors.controllers.bootstrap.detached_signatures import detached_signature
from kcm.actors.controllers.bootstrap.token_secrets import (
    NAMESPACE,
    OF_TYPE,
    UnusableSecretError,
    expiry_of,
    requeue_until,
    signing_token,
    token_id_of,
)
from kcm.actors.reconciliation import Because, Change, Interest, Reconciliation, Watch, itself, must, update
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.integers import counted
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, make_key, name_of, split_key
from kcm.protocols.resources import CONFIGMAPS, SECRETS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

PUBLIC, NAME = "kube-public", "cluster-info"
CLUSTER_INFO: Key = make_key(PUBLIC, NAME)
CONTENT = "kubeconfig"  # field of the ConfigMap that is signed
SIGNATURE = "jws-kubeconfig-"  # prefix of the fields with signatures; the token's id follows


class BootstrapSigner:
    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._configmaps, self._secrets = tables[CONFIGMAPS], tables[SECRETS]
        self._clock, self._log = clock, log

    def reconcile(self, key: Key) -> Reconciliation:
        self._configmaps.require(key)
        found = self._configmaps.get(key)
        if found is None:
            return None
        data = found.get("data") or {}
        content = data.get(CONTENT)
        if content is None:
            yield Because(f"has no {CONTENT} to sign")
            self._log.debug("nothing to sign", key=key, lacks=CONTENT)
            return None
        now = self._clock.now()
        signatures, next_expiry = self._signatures(content, now)
        for secret in self._secrets.unreadable():
            kept = f"{SIGNATURE}{token_id_of(split_key(secret.key)[1])}"
            if kept in data:
                signatures.setdefault(kept, data[kept])
        present = {field: value for field, value in data.items() if field.startswith(SIGNATURE)}
        if signatures != present:
            yield Because(
                f"has {counted(len(present), 'signature')}, valid tokens give {len(signatures)}: signs it again"
            )
            rest = {field: value for field, value in data.items() if field not in present}
            outcome = yield from must(update(CONFIGMAPS, {**found, "data": {**rest, **signatures}}), but=(NotFound,))
            if isinstance(outcome, Done):
                self._log.info("cluster info signed", key=key, signatures=len(signatures))
        return None if next_expiry is None else requeue_until(next_expiry, now=now)

    def _signatures(self, content: str, now: float) -> tuple[dict[str, str], float | None]:
        """Sign the content with each valid token.

        Returns the signatures by their field of the ConfigMap, and the earliest expiry of the tokens in Unix seconds,
        or None if no token expires.
        """
        signatures: dict[str, str] = {}
        expiries: list[float] = []
        for secret in self._secrets.objects():
            try:
                token = signing_token(secret, now=now)
            except UnusableSecretError as err:
                self._log.debug("token cannot be used for signing", secret=name_of(secret), why=str(err))
                continue
            signatures[f"{SIGNATURE}{token.id}"] = detached_signature(content, key_id=token.id, key=token.secret)
            expiry = expiry_of(secret)
            if expiry is not None:
                expiries.append(expiry)
        return signatures, min(expiries, default=None)


def cluster_info(_change: Change, _tables: Tables) -> Iterable[Key]:
    """Return the key of the ConfigMap cluster-info, for each change of a token's Secret."""
    return (CLUSTER_INFO,)


def build(context: ControllerContext) -> BootstrapSigner:
    return BootstrapSigner(tables=context.tables, clock=context.clock, log=context.log)


SPEC = ControllerSpec(
    name="bootstrap-signer-controller",
    aliases=("bootstrapsigner",),
    on_by_default=False,
    never_blocks=True,
    client="bootstrap-signer",
    build=build,
    queues=(
        Queue(
            "bootstrap_signer_queue",
            watches=(
                Watch(
                    CONFIGMAPS,
                    to=itself,
                    namespaces=(PUBLIC,),
                    fields=f"metadata.name={NAME}",
                    interest=Interest(types=(EventType.ADDED, EventType.MODIFIED)),
                ),
                Watch(SECRETS, to=cluster_info, namespaces=(NAMESPACE,), fields=OF_TYPE),
            ),
            concurrency=1,
            terminal=(),
        ),
    ),
)
