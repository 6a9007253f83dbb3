"""Metrics of the authentication and authorization of requests.

Source: kubernetes v1.36 apiserver/pkg/endpoints/filters/metrics.go.
"""

from __future__ import annotations

from collections.abc import Callable

from kcm.runtime.metrics.registry import Family, Metrics

SUCCESS, ERROR = "success", "error"  # results of an authentication; anonymous requests are successes
ALLOWED_LABEL, NO_OPINION_LABEL = "allowed", "no-opinion"  # results of an authorization, besides ERROR

_RESULT = ("result",)
_BUCKETS = tuple(0.001 * 2**power for power in range(15))  # seconds
USERS = Family(
    name="authenticated_user_requests",
    kind="counter",
    help="Counter of authenticated requests broken out by username.",
    labels=("username",),
)
AUTHENTICATIONS = Family(
    name="authentication_attempts", kind="counter", help="Counter of authenticated attempts.", labels=_RESULT
)
AUTHENTICATION_SECONDS = Family(
    name="authentication_duration_seconds",
    kind="histogram",
    help="Authentication duration in seconds broken out by result.",
    labels=_RESULT,
    buckets=_BUCKETS,
)
AUTHORIZATIONS = Family(
    name="authorization_attempts_total",
    kind="counter",
    help="Counter of authorization attempts broken down by result. "
    "It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
    labels=_RESULT,
)
AUTHORIZATION_SECONDS = Family(
    name="authorization_duration_seconds",
    kind="histogram",
    help="Authorization duration in seconds broken out by result.",
    labels=_RESULT,
    buckets=_BUCKETS,
)
CERTIFICATE_SECONDS = Family(
    name="apiserver_client_certificate_expiration_seconds",
    kind="histogram",
    help="Distribution of the remaining lifetime on the certificate used to authenticate a request.",
    # Seconds: minutes and hours first, then 1 day to 1 year.
    buckets=(
        *(0.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0),
        *(86400.0, 172800.0, 345600.0, 604800.0, 2592000.0, 7776000.0, 15552000.0, 31104000.0),
    ),
)
_NAMED = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})


class AccessMeter:
    """Counts the outcomes for each request. now: seconds of a monotonic clock."""

    def __init__(self, metrics: Metrics, *, now: Callable[[], float]) -> None:
        self._metrics, self._now = metrics, now

    def authenticated(self, result: str, *, began: float, user: str = "") -> None:
        """Count an authentication. began: seconds of the same clock. user: name; "" after an error."""
        if user:
            self._metrics.counter(USERS, user_label(user)).inc()
        self._metrics.counter(AUTHENTICATIONS, result).inc()
        self._metrics.histogram(AUTHENTICATION_SECONDS, result).observe(self._now() - began)

    def authorized(self, result: str, *, began: float) -> None:
        """Count an authorization. began: seconds of the same clock."""
        self._metrics.counter(AUTHORIZATIONS, result).inc()
        self._metrics.histogram(AUTHORIZATION_SECONDS, result).observe(self._now() - began)


def user_label(name: str) -> str:
    """Return the label for a user name: a few known names, or a category, so that no series is made for each user."""
    if name in _NAMED:
        return name
    return "email_id" if "@" in name else "other"
