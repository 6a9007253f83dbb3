"""Reconciler of token Secrets, and of the Secrets of deleted service accounts.

In: token Secrets, ServiceAccounts.
Out: data of token Secrets, their deletions, and removals of references to deleted Secrets from ServiceAccounts. No
Secret is created.
Keys: AccountKey and SecretKey, in two queues.

Source: kubernetes v1.36 pkg/controller/serviceaccount/tokens_controller.go. Differences:
- ServiceAccounts enqueue a key only when they are deleted or replaced. Upstream's sync does nothing for other events.
- A Secret without a uid is kept if another account of its name exists; the API server is read for it.
- Conflicts are retried at once, not at the next event: a Conflict may be the response to a repeated request whose first
  attempt succeeded. The removal of a reference is retried as well.
- Failures are retried until they succeed, with a backoff of at most 1000 s. Upstream gives up after 10 retries, about
  5 s: without another event, a Secret would then stay empty or outlive its account until the manager restarts.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcm.actors.controllers.identity.token_secrets import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    BY_ACCOUNT,
    account_name,
    account_uid,
    secrets_of,
)
from kcm.actors.controllers.shared.secret_data import data_of
from kcm.actors.reconciliation import Change, Reconciliation, Step, delete, get_live, must, together, update
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import (
    Key,
    Object,
    annotations_of,
    decode_object,
    make_key,
    metadata,
    name_of,
    namespace_of,
    resource_version_of,
    split_key,
    uid_of,
)
from kcm.protocols.resources import SECRETS, SERVICE_ACCOUNTS
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.runtime.tables.table import Entry

ISSUER = "kubernetes/serviceaccount"
CLAIMS = "kubernetes.io/serviceaccount/"
CA, NAMESPACE, TOKEN = "ca.crt", "namespace", "token"  # fields of a token Secret's data

Sign = Callable[[Mapping[str, Any]], str]  # takes the claims of a token, and returns the token


class AccountKey(NamedTuple):
    """Deleted service account. key: namespace and name."""

    key: Key
    uid: str

    def __str__(self) -> str:
        return f"{self.key} {self.uid}"


class SecretKey(NamedTuple):
    """Existing or deleted token Secret, and the service account in its annotations.

    key, uid: namespace, name and uid of the Secret.
    account: name of the account.
    account_uid: "" if the Secret belongs to any account of this name.
    """

    key: Key
    uid: str
    account: str
    account_uid: str

    def __str__(self) -> str:
        return f"{self.key} {self.uid} of {self.account} {self.account_uid}".rstrip()


def deleted_account(change: Change, _tables: Tables) -> Iterable[AccountKey]:
    """Enqueue an account that was deleted, or that another account of the same name has replaced."""
    account = change.new if change.deleted else change.old
    if account is not None:
        yield AccountKey(change.key, uid_of(account))


def secret_of_account(change: Change, _tables: Tables) -> Iterable[SecretKey]:
    secret = change.new
    account = account_name(secret)
    if account:
        yield SecretKey(change.key, uid_of(secret), account, account_uid(secret))


class MissingData(NamedTuple):
    """Fields of a token Secret's data that must be set; ca also if it differs from the root certificates."""

    ca: bool
    namespace: bool
    token: bool


def missing_data(secret: Mapping[str, Any], authority: bytes) -> MissingData:
    """Return the fields to set, as upstream's secretUpdateNeeded. authority: PEM; b"" leaves ca.crt as it is."""
    return MissingData(
        ca=bool(authority) and data_of(secret, CA) != authority,
        namespace=not data_of(secret, NAMESPACE),
        token=not data_of(secret, TOKEN),
    )


def claims(account: Mapping[str, Any], secret: Mapping[str, Any]) -> dict[str, str]:
    """Return the claims of a token without expiry. Source: pkg/serviceaccount/legacy.go, LegacyClaims."""
    namespace, name = namespace_of(account), name_of(account)
    return {
        "iss": ISSUER,
        f"{CLAIMS}namespace": namespace,
        f"{CLAIMS}secret.name": name_of(secret),
        f"{CLAIMS}service-account.name": name,
        f"{CLAIMS}service-account.uid": uid_of(account),
        "sub": f"system:serviceaccount:{namespace}:{name}",
    }


def completed(
    secret: Object, account: Mapping[str, Any], missing: MissingData, *, authority: bytes, sign: Sign
) -> Object:
    """Return the Secret with the missing data, and with the annotations of the account."""
    data = dict(secret.get("data") or {})
    if missing.ca:
        data[CA] = _encoded(authority)
    if missing.namespace:
        data[NAMESPACE] = _encoded(namespace_of(secret).encode())
    if missing.token:
        data[TOKEN] = _encoded(sign(claims(account, secret)).encode())
    names = {ACCOUNT_NAME: name_of(account), ACCOUNT_UID: uid_of(account)}
    return {
        **secret,
        "metadata": {**metadata(secret), "annotations": {**annotations_of(secret), **names}},
        "data": data,
    }


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


class Tokens:
    """Reconciles both queues.

    sign: signs the claims of a token.
    authority: root certificates for ca.crt (PEM); b"" leaves ca.crt as it is.
    """

    def __init__(self, *, tables: Tables, sign: Sign, authority: bytes, log: FilteringBoundLogger) -> None:
        self._secrets, self._accounts = tables[SECRETS], tables[SERVICE_ACCOUNTS]
        self._sign, self._authority, self._log = sign, authority, log

    def reconcile_account(self, deleted: AccountKey) -> Reconciliation:
        """Delete the Secrets of a deleted account, as upstream's syncServiceAccount.

        Secrets without a uid are kept if another account of the name exists.
        """
        self._accounts.require(deleted.key)
        account = self._accounts.entry(deleted.key)
        if account is not None and account.uid == deleted.uid:
            return None
        entries: list[Entry] = []
        without_uid: list[Entry] = []
        for entry in self._secrets.indexed_entries(BY_ACCOUNT.name, deleted.key):
            uid = account_uid(self._secrets.object_of(entry))
            if uid == deleted.uid:
                entries.append(entry)
            elif not uid:
                without_uid.append(entry)
        if without_uid and account is None:
            # The tables are not in step: a Secret for the next account may be in its table before that account is.
            outcome = yield from must(get_live(SERVICE_ACCOUNTS, deleted.key), but=(NotFound,))
            if isinstance(outcome, NotFound):
                entries += without_uid
        commands = [delete(SECRETS, entry) for entry in entries]
        outcomes = yield from together(commands)
        for command, outcome in zip(commands, outcomes, strict=True):
            if isinstance(outcome, Done):
                self._log.info("deleted token of deleted service account", key=command.key, account=deleted.key)
        for command, outcome in zip(commands, outcomes, strict=True):
            if not isinstance(outcome, Done | NotFound):
                raise CommandError(command, outcome)
        return None

    def reconcile_secret(self, key: SecretKey) -> Reconciliation:
        """Complete a Secret, delete it with its account, or remove references to it; as upstream's syncSecret."""
        self._secrets.require(key.key)
        secret = self._secrets.get(key.key)
        if secret is None or uid_of(secret) != key.uid:
            yield from self._remove_reference(key)
            return None
        account = yield from self._account_of(key)
        if account is not None:
            yield from self._complete(key.key, secret, account)
            return None
        # depends_on omits the table of ServiceAccounts: the account was just read live.
        outcome = yield from must(delete(SECRETS, secret, depends_on=(SECRETS,)), but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("deleted token of deleted service account", key=key.key, account=key.account)
        return None

    def _known_account(self, key: SecretKey) -> Object | None:
        account = self._accounts.get(_account_key(key))
        return account if account is not None and _is_account_of(account, key) else None

    def _account_of(self, key: SecretKey) -> Step[Object | None]:
        """Return the account of a Secret from the table, or else from the API server; None if it does not exist."""
        known = self._known_account(key)
        if known is not None:
            return known
        outcome = yield from must(get_live(SERVICE_ACCOUNTS, _account_key(key)), but=(NotFound,))
        if not isinstance(outcome, Done):
            return None
        account = decode_object(outcome.body)
        return account if _is_account_of(account, key) else None

    def _complete(self, key: Key, secret: Object, account: Object) -> Step[None]:
        """Write the missing data of a Secret, as upstream's generateTokenIfNeeded."""
        if not any(missing_data(secret, self._authority)):
            return
        outcome = yield from must(get_live(SECRETS, key), but=(NotFound,))
        if not isinstance(outcome, Done):
            return
        live = decode_object(outcome.body)
        if resource_version_of(live) != resource_version_of(secret):
            self._log.debug("secret is not up to date, waiting for its next event", key=key)
            return
        missing = missing_data(live, self._authority)
        if not any(missing):
            return
        wanted = completed(live, account, missing, authority=self._authority, sign=self._sign)
        outcome = yield from must(update(SECRETS, wanted), but=(NotFound,))
        if isinstance(outcome, Done):
            fields = [field for field, is_missing in zip((CA, NAMESPACE, TOKEN), missing, strict=True) if is_missing]
            self._log.info("completed token secret", key=key, account=name_of(account), fields=fields)

    def _remove_reference(self, key: SecretKey) -> Step[None]:
        """Remove a deleted Secret from the `secrets` of its account, as upstream's removeSecretReference."""
        if self._known_account(key) is None:
            return
        outcome = yield from must(get_live(SERVICE_ACCOUNTS, _account_key(key)), but=(NotFound,))
        if not isinstance(outcome, Done):
            return
        account, name = decode_object(outcome.body), split_key(key.key)[1]
        if not _is_account_of(account, key) or name not in secrets_of(account):
            return
        left = [reference for reference in account["secrets"] if reference.get("name") != name]
        outcome = yield from must(update(SERVICE_ACCOUNTS, {**account, "secrets": left}), but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("removed reference to deleted secret from service account", key=key.key, account=key.account)


def _account_key(key: SecretKey) -> Key:
    return make_key(split_key(key.key)[0], key.account)


def _is_account_of(account: Mapping[str, Any], key: SecretKey) -> bool:
    return not key.account_uid or key.account_uid == uid_of(account)
