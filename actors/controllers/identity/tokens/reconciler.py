"""Reconciler of token Secrets, and of the Secrets of deleted service accounts.

In: token Secrets, ServiceAccounts. Out: the same: Secrets are filled and deleted, references to Secrets that have gone
are taken out of accounts. Nothing is made for an account that has no Secret.

Source: kubernetes v1.36 pkg/controller/serviceaccount/tokens_controller.go. Differences:
- An account wakes its queue when it goes, or another has come in its place, and not when it comes or changes: then
  nothing was to be done.
- A Secret that names no uid stays with another account of the name, for which the server is asked.
- What met a conflict is looked at again at once, and not at the next event: a conflict may be told of a write that
  came through. A reference that could not be taken out of an account is tried again, as all else.
- What fails is tried again until it succeeds, after 1000 s at most. Upstream forgets it after 10 more tries, which take
  some 5 s: without another event a Secret stays empty, or outlives its account, until the manager restarts.
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
CA, NAMESPACE, TOKEN = "ca.crt", "namespace", "token"  # what a token Secret holds

Sign = Callable[[Mapping[str, Any]], str]


class AccountKey(NamedTuple):
    """An account that has gone. key: "namespace/name"."""

    key: Key
    uid: str

    def __str__(self) -> str:
        return f"{self.key} {self.uid}"


class SecretKey(NamedTuple):
    """A Secret, there or not, and the account that it names; account_uid: "" if it names any of that name."""

    key: Key
    uid: str
    account: str
    account_uid: str

    def __str__(self) -> str:
        return f"{self.key} {self.uid} of {self.account} {self.account_uid}".rstrip()


def gone_account(change: Change, _tables: Tables) -> Iterable[AccountKey]:
    gone = change.new if change.deleted else change.old
    if gone is not None:
        yield AccountKey(change.key, uid_of(gone))


def its_secret(change: Change, _tables: Tables) -> Iterable[SecretKey]:
    secret = change.new
    account = account_name(secret)
    if account:
        yield SecretKey(change.key, uid_of(secret), account, account_uid(secret))


class Lacking(NamedTuple):
    """What of its data a Secret lacks, or has wrong."""

    ca: bool
    namespace: bool
    token: bool


def lacking(secret: Mapping[str, Any], authority: bytes) -> Lacking:
    return Lacking(
        ca=bool(authority) and data_of(secret, CA) != authority,
        namespace=not data_of(secret, NAMESPACE),
        token=not data_of(secret, TOKEN),
    )


def claims(account: Mapping[str, Any], secret: Mapping[str, Any]) -> dict[str, str]:
    """What a token says that does not expire. Source: pkg/serviceaccount/legacy.go, LegacyClaims."""
    namespace, name = namespace_of(account), name_of(account)
    return {
        "iss": ISSUER,
        f"{CLAIMS}namespace": namespace,
        f"{CLAIMS}secret.name": name_of(secret),
        f"{CLAIMS}service-account.name": name,
        f"{CLAIMS}service-account.uid": uid_of(account),
        "sub": f"system:serviceaccount:{namespace}:{name}",
    }


def filled(secret: Object, account: Mapping[str, Any], lacks: Lacking, *, authority: bytes, sign: Sign) -> Object:
    """The Secret with all that it lacks."""
    data = dict(secret.get("data") or {})
    if lacks.ca:
        data[CA] = _encoded(authority)
    if lacks.namespace:
        data[NAMESPACE] = _encoded(namespace_of(secret).encode())
    if lacks.token:
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
    def __init__(self, *, tables: Tables, sign: Sign, authority: bytes, log: FilteringBoundLogger) -> None:
        """authority: what pods are to trust, PEM; b"": nothing is said of it."""
        self._secrets, self._accounts = tables[SECRETS], tables[SERVICE_ACCOUNTS]
        self._sign, self._authority, self._log = sign, authority, log

    def reconcile_account(self, gone: AccountKey) -> Reconciliation:
        """Its Secrets go with it; those that name no uid are left to another account of its name, if there is one."""
        self._accounts.require(gone.key)
        account = self._accounts.entry(gone.key)
        if account is not None and account.uid == gone.uid:
            return None
        entries: list[Entry] = []
        of_the_name: list[Entry] = []
        for entry in self._secrets.indexed_entries(BY_ACCOUNT.name, gone.key):
            uid = account_uid(self._secrets.object_of(entry))
            if uid == gone.uid:
                entries.append(entry)
            elif not uid:
                of_the_name.append(entry)
        if of_the_name and account is None:
            # The table may be late: a Secret may be made for the next account before that is shown here.
            outcome = yield from must(get_live(SERVICE_ACCOUNTS, gone.key), but=(NotFound,))
            if isinstance(outcome, NotFound):
                entries += of_the_name
        commands = [delete(SECRETS, entry) for entry in entries]
        outcomes = yield from together(commands)
        for command, outcome in zip(commands, outcomes, strict=True):
            if isinstance(outcome, Done):
                self._log.info("token deleted, its service account is gone", key=command.key, account=gone.key)
        for command, outcome in zip(commands, outcomes, strict=True):
            if not isinstance(outcome, Done | NotFound):
                raise CommandError(command, outcome)
        return None

    def reconcile_secret(self, key: SecretKey) -> Reconciliation:
        self._secrets.require(key.key)
        secret = self._secrets.get(key.key)
        if secret is None or uid_of(secret) != key.uid:
            yield from self._take_out(key)
            return None
        account = yield from self._account_of(key)
        if account is not None:
            yield from self._fill(key.key, secret, account)
            return None
        # That the account is gone was asked of the server just now.
        outcome = yield from must(delete(SECRETS, secret, depends_on=(SECRETS,)), but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("token deleted, its service account is gone", key=key.key, account=key.account)
        return None

    def _known_account(self, key: SecretKey) -> Object | None:
        account = self._accounts.get(_account_key(key))
        return account if account is not None and _is_meant(account, key) else None

    def _account_of(self, key: SecretKey) -> Step[Object | None]:
        """None if there is none: by the table, and where that shows none, by the server."""
        known = self._known_account(key)
        if known is not None:
            return known
        outcome = yield from must(get_live(SERVICE_ACCOUNTS, _account_key(key)), but=(NotFound,))
        if not isinstance(outcome, Done):
            return None
        account = decode_object(outcome.body)
        return account if _is_meant(account, key) else None

    def _fill(self, key: Key, secret: Object, account: Object) -> Step[None]:
        if not any(lacking(secret, self._authority)):
            return
        outcome = yield from must(get_live(SECRETS, key), but=(NotFound,))
        if not isinstance(outcome, Done):
            return
        live = decode_object(outcome.body)
        if resource_version_of(live) != resource_version_of(secret):
            self._log.debug("secret is not up to date, waiting for its next event", key=key)
            return
        lacks = lacking(live, self._authority)
        if not any(lacks):
            return
        wanted = filled(live, account, lacks, authority=self._authority, sign=self._sign)
        outcome = yield from must(update(SECRETS, wanted), but=(NotFound,))
        if isinstance(outcome, Done):
            parts = [part for part, lacked in zip((CA, NAMESPACE, TOKEN), lacks, strict=True) if lacked]
            self._log.info("token secret filled", key=key, account=name_of(account), parts=parts)

    def _take_out(self, key: SecretKey) -> Step[None]:
        """The account, if it is still there, names the Secret no more."""
        if self._known_account(key) is None:
            return
        outcome = yield from must(get_live(SERVICE_ACCOUNTS, _account_key(key)), but=(NotFound,))
        if not isinstance(outcome, Done):
            return
        account, name = decode_object(outcome.body), split_key(key.key)[1]
        if not _is_meant(account, key) or name not in secrets_of(account):
            return
        left = [reference for reference in account["secrets"] if reference.get("name") != name]
        outcome = yield from must(update(SERVICE_ACCOUNTS, {**account, "secrets": left}), but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("removed reference to deleted secret from service account", key=key.key, account=key.account)


def _account_key(key: SecretKey) -> Key:
    return make_key(split_key(key.key)[0], key.account)


def _is_meant(account: Mapping[str, Any], key: SecretKey) -> bool:
    return not key.account_uid or key.account_uid == uid_of(account)
