"""Impersonation: parses the headers, and checks whether the requester may act as the other user.

The modes are tried in this order: associated node, arbitrary node, service account, other users (constrained
impersonation, which also needs permission for the impersonated request itself), and the original verb `impersonate`.

Source: apiserver pkg/endpoints/filters/impersonation/{constrained_impersonation,mode}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote

from kcm.runtime.apiserver.access.refusals import not_authorized
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import (
    ACCOUNTS,
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    NODE,
    NODES,
    UNAUTHENTICATED,
    Decision,
    User,
)
from kcm.runtime.apiserver.rules.names import dns_subdomain

Decide = Callable[[User, RequestInfo], Decision]

PREFIX = b"impersonate-"
_USER, _UID, _GROUP, _EXTRA = b"impersonate-user", b"impersonate-uid", b"impersonate-group", b"impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"
MANY = 4  # from this number on, groups or values are first checked together
MOST_REMEMBERED = 1024  # users


class Impersonated(NamedTuple):
    """Impersonated user, and the verb of the constrained mode that allowed it.

    constraint: "" for the original mode
    """

    user: User
    constraint: str


class _Mode(NamedTuple):
    """Mode of impersonation.

    name: "" for the original mode
    applies: reports whether the mode applies to a requester and the user to impersonate
    """

    name: str
    applies: Callable[[User, User], bool]


class Impersonation:
    def __init__(self, decide: Decide) -> None:
        self._decide = decide
        self._last: dict[str, _Mode] = {}  # the last mode that allowed a request, by the requester's name

    def impersonate(self, requester: User, wanted: User, info: RequestInfo) -> Impersonated:
        """Return the user to act as. Raises StatusError (403) with the error of the first mode that was tried."""
        last, refusal = self._last.get(requester.name), None
        for mode in _MODES if last is None else (last, *(mode for mode in _MODES if mode is not last)):
            if not mode.applies(requester, wanted):
                continue
            try:
                found = self._try(mode, requester, wanted, info)
            except StatusError as err:
                refusal = refusal or err
                continue
            if mode is not last:
                if len(self._last) >= MOST_REMEMBERED:
                    self._last.clear()
                self._last[requester.name] = mode
            return found
        assert refusal is not None  # the last mode applies to all users
        raise refusal

    def _try(self, mode: _Mode, requester: User, wanted: User, info: RequestInfo) -> Impersonated:
        verb, shown = "impersonate", requester
        if mode.name:
            verb = f"impersonate:{mode.name}"
            if mode.name == _ASSOCIATED:  # upstream passes only the keys of extra to authorizers
                keys = tuple(sorted(requester.extra))
                shown = requester._replace(extra={"authentication.kubernetes.io/associated-node-keys": keys})
            self._ask(shown, info._replace(verb=f"impersonate-on:{mode.name}:{info.verb}"))
        for part in _parts(mode, verb, wanted):
            self._check(shown, part)
        groups = wanted.groups
        if mode.name and _node_of(wanted):
            groups = (NODES,)
        elif not groups and (account := _account_of(wanted)):
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
        if wanted.name == ANONYMOUS.name:
            groups = _with(groups, UNAUTHENTICATED)
        elif UNAUTHENTICATED not in groups:
            groups = _with(groups, AUTHENTICATED)
        return Impersonated(wanted._replace(groups=groups), verb if mode.name else "")

    def _check(self, requester: User, part: _Part) -> None:
        if part.never:
            raise not_authorized(requester.name, part.one_by_one[0], part.never)
        if part.together is not None and self._decide(requester, part.together).allowed:
            return
        for info in part.one_by_one:
            self._ask(requester, info)

    def _ask(self, requester: User, info: RequestInfo) -> None:
        decision = self._decide(requester, info)
        if not decision.allowed:
            raise not_authorized(requester.name, info, decision.reason)


class _Part(NamedTuple):
    """Permissions that one field of the impersonated user requires.

    one_by_one: the permissions, one for each value of the field
    together: a permission that replaces all of one_by_one; None if there is no such permission
    never: why the value is always refused; "" if it may be allowed
    """

    one_by_one: list[RequestInfo]
    together: RequestInfo | None = None
    never: str = ""


def wanted_user(headers: Iterable[tuple[bytes, bytes]]) -> User | None:
    """Return the user to impersonate, or None if the headers do not contain one.

    headers: names in lower case, and values
    Raises StatusError (400) if the headers contain a uid, groups or extra, but no user name.
    """
    name, uid, groups = "", "", []
    extra: dict[str, tuple[str, ...]] = {}
    for header, raw in headers:
        value = raw.decode(errors="replace")
        if header == _USER:
            name = name or value
        elif header == _UID:
            uid = uid or value
        elif header == _GROUP:
            groups.append(value)
        elif header.startswith(_EXTRA):
            key = unquote(header.removeprefix(_EXTRA).decode(errors="replace"))
            extra[key] = (*extra.get(key, ()), value)
    if name:
        return User(name, uid, tuple(groups), extra)
    if uid or groups or extra:
        shown = f'&user.DefaultInfo{{Name:"", UID:{quoted(uid)}, Groups:{_go(groups)}, Extra:{_go_map(extra)}}}'
        raise status_errors.bad_request(f"requested {shown} without impersonating a user name")
    return None


def _parts(mode: _Mode, verb: str, wanted: User) -> Iterator[_Part]:
    """Yield the permissions that the requester needs to impersonate this user in this mode."""
    core = RequestInfo(verb, "" if not mode.name else _AUTHENTICATION, "v1")
    account, node = _account_of(wanted), _node_of(wanted)
    if account:
        yield _Part([core._replace(resource="serviceaccounts", namespace=account[0], name=account[1])])
    elif mode.name and node:
        yield _Part([core._replace(resource="nodes", name="*" if mode.name == _ASSOCIATED else node)])
    else:
        yield _Part([core._replace(resource="users", name=wanted.name)])
    extended = core._replace(group=_AUTHENTICATION)
    if wanted.uid:
        yield _Part([extended._replace(resource="uids", name=wanted.uid)])
    if wanted.groups:
        group = core._replace(resource="groups")
        many = group._replace(name="*") if mode.name and len(wanted.groups) >= MANY else None
        yield _never_groups(mode, group, wanted) or _Part([group._replace(name=name) for name in wanted.groups], many)
    if wanted.extra:
        extra = extended._replace(resource="userextras")
        each = [extra._replace(subresource=key, name=value) for key, values in wanted.extra.items() for value in values]
        large = len(wanted.extra) >= MANY or len(each) >= MANY
        why = _never_extra(wanted) if mode.name else ""
        together = extra._replace(subresource="*", name="*") if mode.name and large else None
        yield _Part([extra] if why else each, together, why)


def _never_groups(mode: _Mode, group: RequestInfo, wanted: User) -> _Part | None:
    if mode.name and "" in wanted.groups:
        return _Part([group], never="impersonating the empty string group is not allowed")
    if mode.name and MASTERS in wanted.groups:
        return _Part([group._replace(name=MASTERS)], never=f"impersonating the {MASTERS} group is not allowed")
    return None


def _never_extra(wanted: User) -> str:
    for key, values in wanted.extra.items():
        domain, _, path = key.partition("/")
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        if not path or dns_subdomain(domain):
            text = 'must be a domain-prefixed path (such as "acme.io/foo")'
            problem = f"extra.key: Invalid value: {quoted(key)}: {text}"
            return f"impersonating an invalid key in extra is not allowed: {problem}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _account_of(user: User) -> tuple[str, str] | None:
    """Return namespace and name if the user is a service account."""
    namespace, colon, name = user.name.removeprefix(ACCOUNTS).partition(":")
    is_one = user.name.startswith(ACCOUNTS) and colon and namespace and name and ":" not in name
    return (namespace, name) if is_one else None


def _node_of(user: User) -> str:
    name = user.name.removeprefix(NODE)
    return name if user.name.startswith(NODE) and not dns_subdomain(name) else ""


def _is_nothing_but_named(wanted: User) -> bool:
    return not (wanted.uid or wanted.groups or wanted.extra)


def _is_own_node(requester: User, wanted: User) -> bool:
    node = _node_of(wanted)
    own = requester.extra.get(_NODE_OF_TOKEN, ())
    return bool(node) and _account_of(requester) is not None and _is_nothing_but_named(wanted) and own == (node,)


_ASSOCIATED = "associated-node"
_MODES = (
    _Mode(_ASSOCIATED, _is_own_node),
    _Mode("arbitrary-node", lambda _, wanted: bool(_node_of(wanted)) and _is_nothing_but_named(wanted)),
    _Mode("serviceaccount", lambda _, wanted: bool(_account_of(wanted)) and _is_nothing_but_named(wanted)),
    _Mode("user-info", lambda _, wanted: not _node_of(wanted) and not _account_of(wanted)),
    _Mode("", lambda _requester, _wanted: True),
)


def _with(groups: tuple[str, ...], group: str) -> tuple[str, ...]:
    return groups if group in groups else (*groups, group)


def _go(values: Iterable[str]) -> str:
    """Format values as Go's %#v formats a []string."""
    shown = ", ".join(map(quoted, values))
    return f"[]string{{{shown}}}" if shown else "[]string(nil)"


def _go_map(values: dict[str, tuple[str, ...]]) -> str:
    shown = ", ".join(f"{quoted(key)}:[]string{{{', '.join(map(quoted, of))}}}" for key, of in sorted(values.items()))
    return f"map[string][]string{{{shown}}}" if shown else "map[string][]string(nil)"
