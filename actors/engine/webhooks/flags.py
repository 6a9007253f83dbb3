"""Flags of programs whose controllers have webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kcm.actors.engine.webhooks.certificates import NAME
from kcm.actors.engine.webhooks.configurations import has_webhooks
from kcm.actors.engine.webhooks.settings import PORT, WebhookServing
from kcm.actors.options import ControllerOptions, Options
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.addresses import host_port
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION
from kcm.runtime.x509.key_rings import CertificateLives

LOOPBACK = "127.0.0.1"
_LIVES = CertificateLives()


class WebhookOptions(ControllerOptions, frozen=True, kw_only=True):
    """Address and certificates of the server of the webhooks."""

    webhook_port: int = flag(PORT, "Port on which webhooks are served over HTTPS. 0 disables them.")
    webhook_bind_address: str = flag(
        "", "IP address on which webhooks are served; by default all, and 127.0.0.1 with an embedded cluster."
    )
    webhook_service: str = flag(
        "",
        "Service of the program's pods, as [NAMESPACE/]NAME[:PORT], by which the API server calls webhooks. "
        "By default the program's name with -webhook, if the program runs in a pod.",
    )
    webhook_url: str = flag(
        "",
        "URL by which the API server calls webhooks instead of a Service, as https://host:9443. "
        "By default 127.0.0.1, if the program does not run in a pod.",
    )
    webhook_secret: str = flag(
        "",
        "Secret for the certificates of the webhooks, as [NAMESPACE/]NAME, which all replicas share. "
        "By default the program's name with -webhook, in the namespace of the Lease.",
    )
    webhook_certificate_lifetime: float = flag(
        _LIVES.serving,
        "Lifetime of the serving certificate; it is replaced after two thirds of it.",
        kind=DURATION,
    )
    webhook_authority_lifetime: float = flag(
        _LIVES.authority,
        "Lifetime of the CA of the serving certificate; it is replaced after two thirds of it.",
        kind=DURATION,
    )
    webhook_authority_settle: float = flag(
        _LIVES.settle,
        "Time after which a new CA is used, once it is in all webhook configurations.",
        kind=DURATION,
    )
    webhook_authority_overlap: float = flag(
        _LIVES.overlap,
        "Time after which the previous CA is removed from webhook configurations, once it is no longer used.",
        kind=DURATION,
    )


def _check(options: Options) -> Iterator[str]:
    """Check the flags of a program named "program". Its real name cannot make them invalid."""
    try:
        webhook_serving(options, name="program", in_cluster=False, embeds_cluster=False)
    except (TypeError, ValueError) as err:
        yield str(err)


def with_webhook_flags(specs: Iterable[ControllerSpec]) -> tuple[ControllerSpec, ...]:
    """Return the specs, followed by one that has the flags of webhooks if a spec has webhooks."""
    given = tuple(specs)
    if not has_webhooks(given):
        return given
    flags = ControllerSpec(
        name=NAME, build=lambda context: context, by_its_flags_alone=True, options=WebhookOptions, checks=(_check,)
    )
    return (*given, flags)


def webhook_serving(options: Options, *, name: str, in_cluster: bool, embeds_cluster: bool) -> WebhookServing | None:
    """Return how a program serves its webhooks; None if --webhook-port disables them.

    name: of the program.
    in_cluster: the program runs in a pod.
    embeds_cluster: the program has started the cluster, which runs on the same host.

    Raises TypeError and ValueError for invalid values.
    """
    chosen = options[WebhookOptions]
    if not chosen.webhook_port:
        return None
    address = chosen.webhook_bind_address or (LOOPBACK if embeds_cluster else "0.0.0.0")
    url = chosen.webhook_url
    if not url and not chosen.webhook_service and not in_cluster:
        url = f"https://{host_port(LOOPBACK, chosen.webhook_port)}"
    return WebhookServing(
        name=name,
        namespace=options.leader_election.resource_namespace,
        bind_address=address,
        port=chosen.webhook_port,
        service=chosen.webhook_service,
        url=url,
        secret=chosen.webhook_secret,
        lives=CertificateLives(
            serving=chosen.webhook_certificate_lifetime,
            authority=chosen.webhook_authority_lifetime,
            settle=chosen.webhook_authority_settle,
            overlap=chosen.webhook_authority_overlap,
        ),
    )
