"""Flags that several controllers of service accounts share."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag


class ServiceAccountOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "SAController"

    concurrent_token_syncs: int = flag(
        5,
        "Number of service accounts and token Secrets that are synced concurrently.",
        name="concurrent-serviceaccount-token-syncs",
        config="ConcurrentSATokenSyncs",
    )
    private_key_file: str = flag(
        "",
        "Path to the private key that signs service account tokens.",
        name="service-account-private-key-file",
        config="ServiceAccountKeyFile",
    )
    root_ca_file: str = flag(
        "",
        "Path to the CA certificates that are included in token Secrets and in the ConfigMap kube-root-ca.crt of "
        "each namespace.",
        config="RootCAFile",
    )
