"""Credentials of service accounts from TokenRequests, so that each controller is a separate user.

A missing account is created, and so is its namespace if possible. Tokens are valid for an hour and renewed after four
fifths of it, or at once when the server rejects one.

Source: kubernetes v1.36 staging/src/k8s.io/controller-manager/pkg/clientbuilder/client_builder_dynamic.go. Differences:
- An account is looked up before its first request, not when its controller is created.
- A forbidden request is not retried at once: the error contains the missing permission.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from kcm.protocols.resources import resource_path
from kcm.protocols.times import parse_time
from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.config import ConfigError, Credential
from kcm.runtime.client.credentials import bearer

NAMESPACE = "kube-system"
EXPIRATION = 3600  # seconds; expirationSeconds of the TokenRequest
SHORTEST = 600.0  # seconds; an apparently shorter lifetime is caused by a difference of clocks
USED = 0.8  # fraction of its lifetime after which a token is renewed
TRIES, FIRST_PAUSE = 4, 0.5  # seconds; each pause is twice as long as the one before
ACCOUNTS, NAMESPACES = "v1/serviceaccounts", "v1/namespaces"
NOT_ALLOWED = (401, 403)


class _FailedError(Exception):
    """A failed request and its error. final: a retry would fail as well."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class AccountToken:
    """Source of the credentials of one service account. Implements CredentialSource."""

    def __init__(
        self,
        name: str,
        *,
        request: Callable[[Request], Response],
        pause: Callable[[float], object],
        now: Callable[[], float],
    ) -> None:
        """Create a source.

        name: of the account.
        request: sends a request with the manager's own credentials, and waits for the response.
        pause: waits for the given seconds, or less if the process stops.
        now: Unix seconds.
        """
        self._name, self._request, self._pause, self._now = name, request, pause, now

    def load(self) -> Credential:
        """Request a token, and create the account if necessary. Blocks. Raises ConfigError."""
        why = ""
        for number in range(TRIES):
            if number:
                self._pause(FIRST_PAUSE * 2 ** (number - 1))
            try:
                self._ensure_account()
                return self._token()
            except _FailedError as err:
                why = str(err)
                if err.final:
                    break
        raise ConfigError(f"failed to get token for {NAMESPACE}/{self._name}: {why}")

    def _ensure_account(self) -> None:
        asked = f"get serviceaccount {NAMESPACE}/{self._name}"
        found = self._request(Request(method="GET", path=resource_path(ACCOUNTS, NAMESPACE, self._name)))
        if found.status == 404:
            self._ensure_namespace()
            asked = f"create serviceaccount {NAMESPACE}/{self._name}"
            meta = {"name": self._name, "namespace": NAMESPACE}
            found = self._post(resource_path(ACCOUNTS, NAMESPACE), "ServiceAccount", {"metadata": meta})
            if found.status == 409:  # another client has created it meanwhile
                return
        _check(found, asked)

    def _ensure_namespace(self) -> None:
        """Create the namespace if it is missing. An error is reported by the creation of the account."""
        if self._request(Request(method="GET", path=resource_path(NAMESPACES, "", NAMESPACE))).status == 404:
            self._post(resource_path(NAMESPACES), "Namespace", {"metadata": {"name": NAMESPACE}})

    def _token(self) -> Credential:
        asked = f"create serviceaccounts/token {NAMESPACE}/{self._name}"
        path = resource_path(ACCOUNTS, NAMESPACE, self._name, "token")
        answer = self._post(
            path, "TokenRequest", {"spec": {"expirationSeconds": EXPIRATION}}, "authentication.k8s.io/v1"
        )
        _check(answer, asked)
        try:
            status = orjson.loads(answer.body)["status"]
            token, ends = status["token"], parse_time(status["expirationTimestamp"])
        except (ValueError, KeyError, TypeError) as err:
            raise _FailedError(f"{asked}: the response has no token with an expiration time") from err
        lifetime = max(ends - self._now(), SHORTEST)
        return Credential(authorization=bearer(token, origin=asked), lifetime=USED * lifetime)

    def _post(self, path: str, kind: str, obj: dict[str, Any], api_version: str = "v1") -> Response:
        body = orjson.dumps({"apiVersion": api_version, "kind": kind, **obj})
        return self._request(Request(method="POST", path=path, body=body))


def _check(response: Response, asked: str) -> None:
    """Raise _FailedError unless the request succeeded."""
    if 200 <= response.status < 300:
        return
    raise _FailedError(f"{asked}: {response.problem}", final=response.status in NOT_ALLOWED)
