"""Webhooks of a system: the controllers that have some, the pages that serve them, and the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kcm.actors.app.health import Check
from kcm.actors.engine.vitals import WebhookServerVitals
from kcm.actors.engine.webhooks.certificates import certificates_spec
from kcm.actors.engine.webhooks.configurations import admission_of, conversion_path, conversions_of
from kcm.actors.engine.webhooks.responses import admission_responder, conversion_responder
from kcm.actors.engine.webhooks.server import WebhookServer
from kcm.actors.engine.webhooks.settings import WebhookServing
from kcm.actors.reconciliation.actor_names import WEBHOOK_SERVER
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.resources import SECRETS
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.webhook_pages import CERTIFICATE_END, WebhookHost, WebhookPage
from kcm.runtime.system.actor import ActorSpec, Context
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.tables import Tables
from kcm.runtime.tables.view import AnyTable, tables_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

CONVERSION_SECONDS = 30.0  # timeout of a call in the API server

MakeHost = Callable[[Sequence[WebhookPage]], WebhookHost]
"""Returns the server of these pages, which does not serve yet."""


class WebhookParts:
    """Webhooks of a system. The server is made once the tables of the controllers are known."""

    def __init__(
        self,
        serving: WebhookServing,
        specs: Sequence[ControllerSpec],
        *,
        make_host: MakeHost,
        log: FilteringBoundLogger,
    ) -> None:
        """Create the parts. specs: enabled controllers with webhooks. Raises ValueError if two have the same name."""
        self.serving, self._specs, self._make_host, self._log = serving, tuple(specs), make_host, log
        self._host: WebhookHost | None = None
        self.spec = certificates_spec(serving, self._specs, self.host)

    def server(self, seen: Mapping[str, Mapping[str, AnyTable]], vitals: Vitals) -> ActorSpec:
        """Make the server, and return its actor. seen: tables of each controller, by name and Resource.id."""
        host = self._host = self._make_host(tuple(self._pages(seen)))
        table = tables_of(seen[self.spec.name][SECRETS.id])[0]

        read = [entry for spec in self._specs if spec.admission for entry in seen[spec.name].values()]

        def build(context: Context) -> WebhookServer:
            return WebhookServer(
                context,
                table=table,
                key=self.serving.secret_key,
                host=host,
                vitals=vitals,
                is_synced=lambda: all(entry.synced for entry in read),
            )

        return ActorSpec(name=WEBHOOK_SERVER, build=build)

    def host(self) -> WebhookHost:
        assert self._host is not None
        return self._host

    def close(self) -> None:
        if self._host is not None:
            self._host.close()

    def check(self, vitals: Vitals) -> Check:
        """Return the health check, which fails while the webhooks are not served."""

        def check() -> str | None:
            found = vitals.of(WEBHOOK_SERVER, WebhookServerVitals)
            return "not started" if found is None else found.problem or None

        return check

    def report(self, metrics: Metrics) -> None:
        """Report when the serving certificate expires."""
        metrics.gauge(CERTIFICATE_END).read_from(self._certificate_end)

    def _certificate_end(self) -> float:
        from kcm.runtime.x509.rotation import end_of  # heavy: cryptography

        ring = self._host.ring if self._host is not None else None
        return 0.0 if ring is None else end_of(ring.certificate)

    def _pages(self, seen: Mapping[str, Mapping[str, AnyTable]]) -> Iterable[WebhookPage]:
        for spec in self._specs:
            tables = Tables(seen[spec.name])
            for webhook in admission_of((spec,)):
                respond = admission_responder(webhook, tables, self._log)
                yield WebhookPage(webhook.path, respond, float(webhook.timeout_seconds))
        for definition, conversions in conversions_of(self._specs).items():
            respond = conversion_responder(conversions, self._log)
            yield WebhookPage(conversion_path(definition), respond, CONVERSION_SECONDS)


def https_host(
    pages: Sequence[WebhookPage],
    *,
    serving: WebhookServing,
    clock: Clock,
    log: FilteringBoundLogger,
    metrics: Metrics,
) -> WebhookHost:
    """Return the HTTPS server of this process."""
    from kcm.runtime.serving.webhook_host import HttpsWebhookHost  # heavy: a web server, certificates

    return HttpsWebhookHost(
        pages, address=serving.bind_address, port=serving.port, clock=clock, log=log, metrics=metrics
    )


def webhook_parts(
    serving: WebhookServing,
    specs: Iterable[ControllerSpec],
    *,
    make_host: MakeHost | None,
    clock: Clock,
    log: FilteringBoundLogger,
    metrics: Metrics,
) -> WebhookParts:
    """Return the webhooks of these controllers. make_host: None for an HTTPS server."""
    make = make_host or partial(https_host, serving=serving, clock=clock, log=log, metrics=metrics)
    parts = WebhookParts(serving, tuple(specs), make_host=make, log=log)
    parts.report(metrics)
    return parts
