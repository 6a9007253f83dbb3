"""Delegated authentication and authorization of the served pages, as flags configure it.

Source: kubernetes v1.36 apiserver/pkg/server/options (authentication.go, authorization.go). As in
kube-controller-manager both kubeconfigs are optional.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from kcm.actors.app.connection import connect
from kcm.actors.options import Options
from kcm.runtime.client.connection_settings import is_in_cluster, load_config
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.metrics.families import TRANSPORT_CALLS
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.authentication import BearerAuthenticator, ProxyHeaders, UnauthorizedError
from kcm.runtime.serving.authorization import NO_OPINION, PageAttributes, PageAuthorizer, PageDecision, PageUser
from kcm.runtime.serving.cluster_authentication import NAME, NAMESPACE, ClusterAuthentication, LookupFailedError
from kcm.runtime.serving.reviews import (
    ACCESS_REQUESTS,
    ACCESS_SECONDS,
    TOKEN_REQUESTS,
    TOKEN_SECONDS,
    AccessReviews,
    ReviewClient,
    TokenReviews,
)

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

CLIENT = "delegated-auth"  # sender of reviews and of the lookup, in user agents
PROGRAM = "kube-controller-manager"


class LateReviews:
    """Reviews by an API server that is started after the pages are served, as the embedded one."""

    def __init__(self, options: Options, *, clock: Clock, metrics: Metrics) -> None:
        self._options, self._clock, self._metrics = options, clock, metrics
        self._tokens: TokenReviews | None = None
        self._access: AccessReviews | None = None

    def connect(self, server: HttpTransport) -> None:
        """Let this server review from now on."""
        self._access = _access_reviews(self._options, server, clock=self._clock, metrics=self._metrics)
        self._tokens = _token_reviews(self._options, server, clock=self._clock, metrics=self._metrics)

    async def user(self, token: str) -> PageUser:
        if self._tokens is None:
            raise UnauthorizedError("the API server that reviews tokens has not been started yet")
        return await self._tokens.user(token)

    async def decide(self, attributes: PageAttributes) -> PageDecision:
        return NO_OPINION if self._access is None else await self._access.decide(attributes)


class Delegation(msgspec.Struct, frozen=True, kw_only=True):
    """Authenticator, authorizer and settings that an API server provides for the pages; None where it provides none."""

    tokens: BearerAuthenticator | None = None
    access: PageAuthorizer | None = None
    published: ClusterAuthentication | None = None
    # Reviews by the embedded API server, among the two above; None without it.
    late: LateReviews | None = None

    def headers(self, options: Options) -> ProxyHeaders:
        """Return the current headers of proxies: those of the flags if there is a file of authorities of proxies."""
        chosen = options.authentication
        if self.published is not None and not chosen.requestheader_client_ca_file:
            return self.published.settings.headers
        return ProxyHeaders(
            names=chosen.requestheader_allowed_names,
            username=chosen.requestheader_username_headers,
            group=chosen.requestheader_group_headers,
            uid=chosen.requestheader_uid_headers,
            extra=chosen.requestheader_extra_headers_prefix,
        )


def delegate(
    options: Options,
    closing: ExitStack,
    *,
    environ: Mapping[str, str],
    clock: Clock,
    metrics: Metrics,
    log: FilteringBoundLogger,
    wait: Callable[[float], bool],
    embeds_cluster: bool = False,
) -> Delegation:
    """Connect to the API servers that review tokens and access, and look up the authentication settings.

    closing: closes the connections.
    wait: waits some seconds, and returns True to give up; for an API server that does not respond yet.
    embeds_cluster: only flags name API servers, not the environment of a pod. Without flags the embedded API server
        reviews, once it is passed to LateReviews.connect.

    Raises ConfigError for an unusable kubeconfig, LookupFailedError.
    """
    transports: dict[str, HttpTransport] = {}

    def transport_of(kubeconfig: str) -> HttpTransport | None:
        if not kubeconfig and (embeds_cluster or not is_in_cluster(environ)):
            return None
        if kubeconfig not in transports:
            config = load_config(kubeconfig=kubeconfig, master=None, environ=environ, clock=clock, metrics=metrics)
            transport = connect(config, clock=clock, metrics=metrics, log=log, program=PROGRAM)
            closing.callback(transport.close, timeout=1.0)
            transports[kubeconfig] = transport
        else:
            metrics.counter(TRANSPORT_CALLS, "hit").inc()
        return transports[kubeconfig]

    authentication, authorization = options.authentication, options.authorization
    late = LateReviews(options, clock=clock, metrics=metrics) if embeds_cluster else None
    tokens: BearerAuthenticator | None = late
    published: ClusterAuthentication | None = None
    server = transport_of(authentication.kubeconfig)
    if server is not None:
        tokens = _token_reviews(options, server, clock=clock, metrics=metrics)
        published = _published(options, closing, server, log=log, wait=wait)
    elif not embeds_cluster:
        _log_missing_lookup(options, log)
    access: PageAuthorizer | None = late
    server = transport_of(authorization.kubeconfig)
    if server is not None:
        access = _access_reviews(options, server, clock=clock, metrics=metrics)
    elif not embeds_cluster:
        log.warning("No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens won't work.")
    return Delegation(tokens=tokens, access=access, published=published, late=late)


def _token_reviews(options: Options, server: HttpTransport, *, clock: Clock, metrics: Metrics) -> TokenReviews:
    client = ReviewClient(
        server,
        client=CLIENT,
        metrics=metrics,
        requests=TOKEN_REQUESTS,
        seconds=TOKEN_SECONDS,
        now=clock.monotonic,
    )
    return TokenReviews(client, ttl=options.authentication.token_webhook_cache_ttl, now=clock.monotonic)


def _access_reviews(options: Options, server: HttpTransport, *, clock: Clock, metrics: Metrics) -> AccessReviews:
    client = ReviewClient(
        server,
        client=CLIENT,
        metrics=metrics,
        requests=ACCESS_REQUESTS,
        seconds=ACCESS_SECONDS,
        now=clock.monotonic,
    )
    return AccessReviews(
        client,
        allowed_ttl=options.authorization.webhook_cache_authorized_ttl,
        denied_ttl=options.authorization.webhook_cache_unauthorized_ttl,
        now=clock.monotonic,
    )


def _published(
    options: Options,
    closing: ExitStack,
    server: HttpTransport,
    *,
    log: FilteringBoundLogger,
    wait: Callable[[float], bool],
) -> ClusterAuthentication | None:
    """Look up the settings that flags leave out, and follow them. Raises LookupFailedError."""
    chosen = options.authentication
    if chosen.skip_lookup or (chosen.client_ca_file and chosen.requestheader_client_ca_file):
        return None
    published = ClusterAuthentication(server, client=CLIENT, log=log)
    try:
        published.look_up(wait)
    except LookupFailedError as error:
        # The authorities of clients may be missing at first, as upstream; those of proxies may not.
        if not chosen.requestheader_client_ca_file:
            if not chosen.tolerate_lookup_failure:
                raise LookupFailedError(
                    f"unable to load configmap based request-header-client-ca-file: {error}"
                ) from error
            log.warning("Error looking up in-cluster authentication configuration", error=str(error))
            log.warning(
                "Continuing without authentication configuration. This may treat all requests as anonymous. To "
                "require authentication configuration lookup to succeed, set "
                "--authentication-tolerate-lookup-failure=false"
            )
    published.follow()
    closing.callback(published.close)
    return published


def _log_missing_lookup(options: Options, log: FilteringBoundLogger) -> None:
    chosen = options.authentication
    if chosen.skip_lookup:
        return
    for file, key, what in (
        (chosen.client_ca_file, "client-ca-file", "client certificate"),
        (chosen.requestheader_client_ca_file, "requestheader-client-ca-file", "request-header client certificate"),
    ):
        if not file:
            log.warning(
                f"No authentication-kubeconfig provided in order to lookup {key} in configmap/{NAME} in {NAMESPACE}, "
                f"so {what} authentication won't work."
            )
