"""Reconciler of the service account token controller: completes token Secrets, and deletes those of deleted accounts.

Input: token Secrets, ServiceAccounts.
Output: data of token Secrets, deletions of token Secrets, and removals of references to deleted Secrets from
ServiceAccounts. No Secret is created.
Keys: AccountKey in the queue of deleted service accounts, SecretKey in the queue of token Secrets.

Source: kubernetes v1.36 pkg/controller/serviceaccount/tokens_controller.go. Differences:
- ServiceAccounts enqueue a key only when they are deleted or replaced. Upstream's sync does nothing for other events.
- A Secret without the uid annotation is kept if the API server has another account with its account name.
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
from kcm.actors.reconciliation import Because, Change, Reconciliation, Step, delete, get_live, must, together, update
from kcm.protocols.integers import counted
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
    """Queue key of a deleted service account: namespace/name, and uid."""

    key: Key
    uid: str

    def __str__(self) -> str:
        return f"{self.key} {self.uid}"


class SecretKey(NamedTuple):
    """Queue key of an existing or deleted token Secret, with the service account in its annotations.

    key: namespace/name of the Secret
    uid: uid of the Secret
    account: name of the service account
    account_uid: uid of the service account; "" if the annotation is missing, so that any account with this name matches
    """

    key: Key
    uid: str
    account: str
    account_uid: str

    def __str__(self) -> str:
        return f"{self.key} {self.uid} of {self.account} {self.account_uid}".rstrip()


def deleted_account(change: Change, _tables: Tables) -> Iterable[AccountKey]:
    """Yield the key of a service account that was deleted, or replaced by another account with the same name."""
    account = change.new if change.deleted else change.old
    if account is not None:
        yield AccountKey(change.key, uid_of(account))


def secret_of_account(change: Change, _tables: Tables) -> Iterable[SecretKey]:
    secret = change.new
    account = account_name(secret)
    if account:
        yield SecretKey(change.key, uid_of(secret), account, account_uid(secret))


class MissingData(NamedTuple):
    """Fields of a token Secret's data that must be set: True for each field that must be written."""

    ca: bool  # ca.crt is missing, or differs from the root certificates
    namespace: bool
    token: bool


def missing_data(secret: Mapping[str, Any], authority: bytes) -> MissingData:
    """Return which fields of a token Secret's data must be set. Source: secretUpdateNeeded.

    authority: root certificates in PEM; with b"", ca.crt is never set.
    """
    return MissingData(
        ca=bool(authority) and data_of(secret, CA) != authority,
        namespace=not data_of(secret, NAMESPACE),
        token=not data_of(secret, TOKEN),
    )


def claims(account: Mapping[str, Any], secret: Mapping[str, Any]) -> dict[str, str]:
    """Return the JWT claims of a service account token without expiry.

    Source: pkg/serviceaccount/legacy.go, LegacyClaims.
    """
    namespace, name = namespace_of(account), name_of(account)
    return {
        "iss": ISSUER,
        f"{CLAIMS}namespace": namespace,
        f"{CLAIMS}secret.name": name_of(secret),
        f"{CLAIMS}service-account.name": name,
        f"{CLAIMS}service-account.uid": uid_of(account),
        "sub": f"system:serviceaccount:{namespace}:{name}",
    }


def with_missing_data(
    secret: Object, account: Mapping[str, Any], missing: MissingData, *, authority: bytes, sign: Sign
) -> Object:
    """Return a copy of a token Secret with the missing data and the annotations that name its service account.

    authority: root certificates in PEM, for ca.crt
    sign: signs the claims of a token
    """
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
    """Reconciler of token Secrets and of deleted service accounts.

    sign: signs the claims of a token
    authority: root certificates in PEM, for ca.crt; b"" leaves ca.crt unchanged
    """

    def __init__(self, *, tables: Tables, sign: Sign, authority: bytes, log: FilteringBoundLogger) -> None:
        self._secrets, self._accounts = tables[SECRETS], tables[SERVICE_ACCOUNTS]
        self._sign, self._authority, self._log = sign, authority, log

    def reconcile_account(self, deleted: AccountKey) -> Reconciliation:
        """Delete the token Secrets of a deleted service account. Source: syncServiceAccount.

        Secrets without the uid annotation are kept if another account with the same name exists.
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
            # The tables are not synchronized: a Secret of the next account may be in its table before that account is.
            outcome = yield from must(get_live(SERVICE_ACCOUNTS, deleted.key), but=(NotFound,))
            if isinstance(outcome, NotFound):
                entries += without_uid
        if entries:
            yield Because(f"its service account was deleted: deletes {counted(len(entries), 'token Secret')}")
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
        """Sync a token Secret: add its missing data, or delete it if its service account does not exist.

        If the Secret was deleted, the reference to it is removed from its service account. Source: syncSecret.
        """
        self._secrets.require(key.key)
        secret = self._secrets.get(key.key)
        if secret is None or uid_of(secret) != key.uid:
            yield from self._remove_reference(key)
            return None
        account = yield from self._account_of(key)
        if account is not None:
            yield from self._add_missing_data(key.key, secret, account)
            return None
        yield Because(f"its service account {key.account} does not exist: deletes it")
        # depends_on omits the table of ServiceAccounts: the account was just read live.
        outcome = yield from must(delete(SECRETS, secret, depends_on=(SECRETS,)), but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("deleted token of deleted service account", key=key.key, account=key.account)
        return None

    def _known_account(self, key: SecretKey) -> Object | None:
        account = self._accounts.get(_account_key(key))
        return account if account is not None and _is_account_of(account, key) else None

    def _account_of(self, key: SecretKey) -> Step[Object | None]:
        """Return the service account of a token Secret, from the informer or the API server; None if it is missing."""
        known = self._known_account(key)
        if known is not None:
            return known
        outcome = yield from must(get_live(SERVICE_ACCOUNTS, _account_key(key)), but=(NotFound,))
        if not isinstance(outcome, Done):
            return None
        account = decode_object(outcome.body)
        return account if _is_account_of(account, key) else None

    def _add_missing_data(self, key: Key, secret: Object, account: Object) -> Step[None]:
        """Set the missing data of a token Secret. Source: generateTokenIfNeeded.

        Nothing is written if the informer's version of the Secret is not current: its next event enqueues it again.
        """
        if not any(missing_data(secret, self._authority)):
            return
        outcome = yield from must(get_live(SECRETS, key), but=(NotFound,))
        if not isinstance(outcome, Done):
            return
        live = decode_object(outcome.body)
        if resource_version_of(live) != resource_version_of(secret):
            yield Because("the table has an older version of it: waits for its next event")
            self._log.debug("secret is not up to date, waiting for its next event", key=key)
            return
        missing = missing_data(live, self._authority)
        if not any(missing):
            return
        lacking = [field for field, is_missing in zip((CA, NAMESPACE, TOKEN), missing, strict=True) if is_missing]
        yield Because(f"lacks {', '.join(lacking)}: adds it")
        wanted = with_missing_data(live, account, missing, authority=self._authority, sign=self._sign)
        outcome = yield from must(update(SECRETS, wanted), but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("completed token secret", key=key, account=name_of(account), fields=lacking)

    def _remove_reference(self, key: SecretKey) -> Step[None]:
        """Remove a deleted Secret from the field `secrets` of its ServiceAccount. Source: removeSecretReference."""
        if self._known_account(key) is None:
            return
        outcome = yield from must(get_live(SERVICE_ACCOUNTS, _account_key(key)), but=(NotFound,))
        if not isinstance(outcome, Done):
            return
        account, name = decode_object(outcome.body), split_key(key.key)[1]
        if not _is_account_of(account, key) or name not in secrets_of(account):
            return
        yield Because(f"was deleted: removes the reference to it from service account {key.account}")
        left = [reference for reference in account["secrets"] if reference.get("name") != name]
        outcome = yield from must(update(SERVICE_ACCOUNTS, {**account, "secrets": left}), but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("removed reference to deleted secret from service account", key=key.key, account=key.account)


def _account_key(key: SecretKey) -> Key:
    return make_key(split_key(key.key)[0], key.account)


def _is_account_of(account: Mapping[str, Any], key: SecretKey) -> bool:
    return not key.account_uid or key.account_uid == uid_of(account)
