"""Credentials of service accounts, by TokenRequest: how each controller is a user of its own.

An account that is not there is created, and so is its namespace where that can be. A token is asked for an hour, and
again once four fifths of its time are over; one that the server refuses is asked for again at once.

Source: kubernetes v1.36 staging/src/k8s.io/controller-manager/pkg/clientbuilder/client_builder_dynamic.go. Differences:
- An account is looked for when its first request goes out, and not when its controller is built.
- What is forbidden is not tried again at once: the error says what is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import orjson

from kcm.protocols.resources import resource_path
from kcm.protocols.times import parse_time
from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.config import ConfigError, Credential
from kcm.runtime.client.credentials import bearer

NAMESPACE = "kube-system"
ASKED = 3600  # seconds that a token is to be good for
SHORTEST = 600.0  # seconds: one that seems to end sooner is of a server whose clock goes otherwise
USED = 0.8  # the part of its time after which another one is asked for
TRIES, FIRST_PAUSE = 4, 0.5  # seconds; each pause is twice as long as the one before
ACCOUNTS, NAMESPACES = "v1/serviceaccounts", "v1/namespaces"
NOT_LET = (401, 403)


class _FailedError(Exception):
    """What was asked, and what came of it. final: the same again changes nothing."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class AccountToken:
    """The source of one account's credentials. Implements CredentialSource."""

    def __init__(
        self,
        name: str,
        *,
        ask: Callable[[Request], Response],
        pause: Callable[[float], object],
        now: Callable[[], float],
    ) -> None:
        """ask: sends a request with the credentials of the manager itself, and waits for the response. pause: waits for
        so many seconds, or less at the end of the process. now: unix seconds.
        """
        self._name, self._ask, self._pause, self._now = name, ask, pause, now

    def load(self) -> Credential:
        """Blocks. Raises ConfigError."""
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
        found = self._ask(Request(method="GET", path=resource_path(ACCOUNTS, NAMESPACE, self._name)))
        if found.status == 404:
            self._ensure_namespace()
            asked = f"create serviceaccount {NAMESPACE}/{self._name}"
            meta = {"name": self._name, "namespace": NAMESPACE}
            found = self._post(resource_path(ACCOUNTS, NAMESPACE), "ServiceAccount", {"metadata": meta})
            if found.status == 409:  # somebody else was quicker
                return
        _check(found, asked)

    def _ensure_namespace(self) -> None:
        """What fails here shows when the account cannot be created."""
        if self._ask(Request(method="GET", path=resource_path(NAMESPACES, "", NAMESPACE))).status == 404:
            self._post(resource_path(NAMESPACES), "Namespace", {"metadata": {"name": NAMESPACE}})

    def _token(self) -> Credential:
        asked = f"create serviceaccounts/token {NAMESPACE}/{self._name}"
        path = resource_path(ACCOUNTS, NAMESPACE, self._name, "token")
        answer = self._post(path, "TokenRequest", {"spec": {"expirationSeconds": ASKED}}, "authentication.k8s.io/v1")
        _check(answer, asked)
        try:
            status = orjson.loads(answer.body)["status"]
            token, ends = status["token"], parse_time(status["expirationTimestamp"])
        except (ValueError, KeyError, TypeError) as err:
            raise _FailedError(f"{asked}: the answer is no token with a time") from err
        lifetime = max(ends - self._now(), SHORTEST)
        return Credential(authorization=bearer(token, origin=asked), lifetime=USED * lifetime)

    def _post(self, path: str, kind: str, obj: dict[str, Any], api_version: str = "v1") -> Response:
        body = orjson.dumps({"apiVersion": api_version, "kind": kind, **obj})
        return self._ask(Request(method="POST", path=path, body=body))


def _check(response: Response, asked: str) -> None:
    """Raises _FailedError unless it was carried out."""
    if 200 <= response.status < 300:
        return
    why = response.error or f"the server answered {response.status}"
    with contextlib.suppress(ValueError, KeyError, TypeError):  # a proxy's page, say
        why = orjson.loads(response.body)["message"] or why
    raise _FailedError(f"{asked}: {why}", final=response.status in NOT_LET)
