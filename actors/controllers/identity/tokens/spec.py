"""ControllerSpec of the service account token controller.

Source: kubernetes v1.36 cmd/kube-controller-manager/app/service_accounts.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.controllers.identity.options import ServiceAccountOptions
from kcm.actors.controllers.identity.root_ca import check_root_ca, root_ca
from kcm.actors.controllers.identity.token_secrets import BY_ACCOUNT, OF_TYPE
from kcm.actors.controllers.identity.tokens.reconciler import Tokens, deleted_account, secret_of_account
from kcm.actors.options import Options
from kcm.actors.reconciliation import Interest, Watch
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.watches import EventType
from kcm.protocols.resources import SECRETS, SERVICE_ACCOUNTS
from kcm.runtime.signing.tokens import KeyUnusableError, SigningKey, read_signing_key

METRICS = "serviceaccount_tokens_service"


def _key_file(options: Options) -> str:
    return options[ServiceAccountOptions].private_key_file


def _workers(options: Options) -> int:
    return options[ServiceAccountOptions].concurrent_token_syncs


def _read_key(options: Options) -> SigningKey:
    """Read the private key of --service-account-private-key-file. Raises KeyUnusableError."""
    try:
        return read_signing_key(_key_file(options))
    except KeyUnusableError as err:
        raise KeyUnusableError(f"error reading key for service account token controller: {err}") from err


def check_key(options: Options) -> Iterator[str]:
    try:
        _read_key(options)
    except KeyUnusableError as err:
        yield str(err)


def build(context: ControllerContext) -> Tokens:
    """Build the reconciler. As upstream, the private key is read only once, when the controller is built."""
    return Tokens(
        tables=context.tables,
        sign=_read_key(context.options).sign,
        authority=root_ca(context),
        log=context.log,
    )


SPEC = ControllerSpec(
    name="serviceaccount-token-controller",
    aliases=("serviceaccount-token",),
    never_blocks=True,
    client="tokens-controller",
    has_root_credentials=True,
    by_its_flags_alone=True,
    enabled_if=lambda options: bool(_key_file(options)),
    needs="--service-account-private-key-file",
    start_checks=(check_key, check_root_ca),
    build=build,
    queues=(
        Queue(
            "serviceaccount_tokens_account",
            reports_as=METRICS,
            watches=(Watch(SERVICE_ACCOUNTS, to=deleted_account, interest=Interest(types=(EventType.DELETED,))),),
            reconcile=Tokens.reconcile_account,
            concurrency=_workers,
            terminal=(),
        ),
        Queue(
            "serviceaccount_tokens_secret",
            reports_as=METRICS,
            watches=(Watch(SECRETS, to=secret_of_account, fields=OF_TYPE),),
            reconcile=Tokens.reconcile_secret,
            concurrency=_workers,
            terminal=(),
        ),
    ),
    indexes=(BY_ACCOUNT,),
)
