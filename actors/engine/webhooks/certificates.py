"""Controller that rotates the certificates of webhooks, and writes the configurations with the CAs.

It runs as any other controller, so only the leader writes. Its decisions about certificates are in
runtime/x509/rotation.py; a configuration is written as soon as it differs from the specs or from the CAs of the Secret.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.engine.webhooks.configurations import (
    MUTATING_CONFIGURATIONS,
    VALIDATING_CONFIGURATIONS,
    conversion_settings,
    conversions_of,
    webhook_configurations,
)
from kcm.actors.engine.webhooks.secret import data_of, ring_of, secret_with
from kcm.actors.engine.webhooks.settings import WebhookServing
from kcm.actors.reconciliation import (
    Change,
    ControllerContext,
    ControllerSpec,
    Enqueue,
    Pass,
    Queue,
    Reconciliation,
    RequeueAfter,
    Step,
    Watch,
    create,
    delete,
    ensure,
    must,
    must_object,
    patch,
    step,
)
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.objects import Key, Object, metadata, resource_version_of, split_key
from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS, Resource
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.webhook_pages import WebhookHost
from kcm.runtime.tables.tables import Tables
from kcm.runtime.x509.key_rings import KeyRing

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NAME = "webhook-certificates-controller"
QUEUE = "webhook_certificates"
SOON = 0.5  # seconds until the next check whether this process serves
LONGEST = 3600.0  # seconds between two checks


class WebhookCertificates:
    """Reconciler of the Secret and the configurations of one program. Its only key is that of the Secret."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        serving: WebhookServing,
        specs: Sequence[ControllerSpec],
        host: WebhookHost,
    ) -> None:
        """Create the reconciler. specs: controllers with webhooks. host: the server of this process."""
        self._tables, self._clock, self._log = tables, clock, log
        self._serving, self._specs, self._host = serving, specs, host
        self._secrets = tables[SECRETS]

    def begin(self) -> Reconciliation:
        yield Enqueue(QUEUE, self._serving.secret_key)
        return None

    def reconcile(self, key: Key) -> Reconciliation:
        from kcm.runtime.x509.rotation import next_ring  # heavy: cryptography

        secret = self._secrets.get(key)
        ring = None if secret is None else ring_of(secret)
        decision = next_ring(
            ring,
            names=self._serving.server_names,
            lives=self._serving.lives,
            now=self._clock.now(),
            is_published=ring is not None and self._is_published(ring),
            new_key=self._host.new_key,
        )
        if decision.ring is not ring:
            yield from self._store(secret, key, decision.ring)
            self._log.info("webhook certificates rotated", secret=key, steps=list(decision.what))
        if self._host.ring is None:
            # The API server must not call webhooks before they are served.
            return RequeueAfter(SOON)
        yield from self._publish(decision.ring)
        return RequeueAfter(min(LONGEST, max(SOON, decision.due - self._clock.now())))

    @step
    def _store(self, secret: Object | None, key: Key, ring: KeyRing) -> Step[None]:
        """Write the Secret, unless another client has written it meanwhile: that raises CommandError."""
        if secret is None:
            yield from must_object(create(SECRETS, secret_with(ring, key, program=self._serving.name)))
            return
        body = {"metadata": {"resourceVersion": resource_version_of(secret)}, "data": data_of(ring)}
        yield from must_object(patch(SECRETS, key, body))

    @step
    def _publish(self, ring: KeyRing) -> Step[None]:
        """Write the configurations that differ from the specs or lack a CA."""
        wanted = dict(webhook_configurations(self._specs, self._serving, bundle=_encoded(ring)))
        for resource in (MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS):
            lister = self._tables[resource]
            if resource in wanted:
                yield from ensure(lister, _with_empty_fields(wanted[resource]))
            elif lister.get(self._serving.name) is not None:
                # An earlier version of the program had such webhooks. They are no longer served.
                yield from must(delete(resource, self._serving.name), but=(NotFound,))
                self._log.info("removed the configuration of former webhooks", configuration=str(resource))
        for definition in conversions_of(self._specs):
            lister = self._tables[CUSTOM_RESOURCE_DEFINITIONS]
            if lister.get(definition) is not None:
                conversion = conversion_settings(definition, self._serving, bundle=_encoded(ring))
                client = {"url": None, "service": None, **conversion["webhook"]["clientConfig"]}
                conversion["webhook"]["clientConfig"] = client
                wanted_fields = {"metadata": {"name": definition}, "spec": {"conversion": conversion}}
                yield from ensure(lister, wanted_fields)

    def _is_published(self, ring: KeyRing) -> bool:
        """Report whether all existing configurations contain all CAs."""
        from kcm.runtime.x509.rotation import authorities_in  # heavy: cryptography

        authorities = authorities_in(ring.authorities)
        return all(authorities <= authorities_in(_decoded(client)) for client in self._clients())

    def _clients(self) -> Iterator[Object]:
        """Yield the clientConfigs of all existing configurations."""
        for resource in (MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS):
            configuration = self._tables[resource].get(self._serving.name) or {}
            for webhook in configuration.get("webhooks") or ():
                yield webhook.get("clientConfig") or {}
        for name in conversions_of(self._specs):
            definition = self._tables[CUSTOM_RESOURCE_DEFINITIONS].get(name)
            if definition is not None:
                webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
                yield webhook.get("clientConfig") or {}


def _encoded(ring: KeyRing) -> str:
    return base64.b64encode(ring.authorities).decode()


def _decoded(client: Object) -> bytes:
    try:
        return base64.b64decode(client.get("caBundle") or "")
    except (TypeError, ValueError):
        return b""


def _with_empty_fields(configuration: Object) -> Object:
    """Add empty lists that the API server omits, so that conditions of an earlier version are removed."""
    webhooks = [{"matchConditions": [], **webhook} for webhook in configuration["webhooks"]]
    return {**configuration, "metadata": dict(metadata(configuration)), "webhooks": webhooks}


def certificates_spec(
    serving: WebhookServing, specs: Sequence[ControllerSpec], host: Callable[[], WebhookHost]
) -> ControllerSpec:
    """Return the spec of the controller. specs: controllers with webhooks. host: returns the server of this process."""

    def to_key(_change: Change, _tables: Tables) -> Iterable[Key]:
        return (serving.secret_key,)

    def watch(resource: Resource[Any], name: str, namespace: str = "") -> Watch[Key]:
        namespaces = (namespace,) if namespace else None
        return Watch(resource, to=to_key, fields=f"metadata.name={name}" if name else "", namespaces=namespaces)

    def build(context: ControllerContext) -> WebhookCertificates:
        return WebhookCertificates(
            tables=context.tables, clock=context.clock, log=context.log, serving=serving, specs=specs, host=host()
        )

    namespace, name = split_key(serving.secret_key)
    watches = [
        watch(SECRETS, name, namespace),
        watch(MUTATING_CONFIGURATIONS, serving.name),
        watch(VALIDATING_CONFIGURATIONS, serving.name),
    ]
    definitions = list(conversions_of(specs))
    if definitions:
        watches.append(watch(CUSTOM_RESOURCE_DEFINITIONS, definitions[0] if len(definitions) == 1 else ""))
    return ControllerSpec(
        name=NAME,
        build=build,
        by_its_flags_alone=True,
        queues=(Queue(QUEUE, watches=tuple(watches), concurrency=1),),
        passes=(Pass("webhook certificates", every=float("inf"), run=WebhookCertificates.begin),),
    )
