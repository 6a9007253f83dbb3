"""The setting of seeded runs about service accounts: their tokens, and what says by what the API server is known."""

from __future__ import annotations

from kcm.actors.controllers.identity import (
    legacy_token_cleaner,
    root_ca_publisher,
    service_accounts,
    tokens,
    trust_bundle_publisher,
)
from kcm.actors.options import Options
from kcm.actors.simulation.campaign.flags import given
from kcm.actors.simulation.campaign.setting import WORKLOADS, Setting
from kcm.actors.simulation.trials.identity.key import key_file

OF_ACCOUNTS = (
    tokens.SPEC,
    service_accounts.SPEC,
    root_ca_publisher.SPEC,
    trust_bundle_publisher.SPEC,
    legacy_token_cleaner.SPEC,
)


def options_of(_scenario: int) -> Options:
    """A token may be cleaned a moment after it was made."""
    return given(
        f"--service-account-private-key-file={key_file()}",
        "--legacy-service-account-token-clean-up-period=1ms",
        "--feature-gates=ClusterTrustBundle=true",
    )


ACCOUNTS_TOO = Setting(name="accounts", controllers=(*WORKLOADS, *OF_ACCOUNTS), options=options_of)
