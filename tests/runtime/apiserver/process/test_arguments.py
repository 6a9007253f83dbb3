"""What is handed to the server's process comes out of its command line again."""

from __future__ import annotations

import pytest

from kcm.runtime.apiserver.process.access_settings import ALWAYS_ALLOW, BY_ROLES, AccessSettings
from kcm.runtime.apiserver.process.arguments import parse_arguments


@pytest.mark.parametrize(
    "settings",
    [
        BY_ROLES,
        AccessSettings(anonymous_auth=False),
        AccessSettings(authorization=ALWAYS_ALLOW, client_ca_file="/ca.crt"),
        AccessSettings(audit_policy_file="/policy", audit_log_path="/log", audit_log_max_age=3),
    ],
)
def test_access_settings_survive_the_command_line(settings: AccessSettings) -> None:
    assert parse_arguments([*settings.arguments()]).access == settings


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        (BY_ROLES, True),
        (AccessSettings(anonymous_auth=False), False),
        (AccessSettings(authorization=ALWAYS_ALLOW), False),
    ],
)
def test_anonymous_requests_are_never_allowed_everything(settings: AccessSettings, allowed: bool) -> None:
    assert settings.allows_anonymous is allowed


def test_kinds_that_are_served_are_read() -> None:
    given = parse_arguments(["--no-metrics", "--runtime-config=api/beta=true, certificates.k8s.io/v1beta1"])
    assert (given.metrics, given.runtime_config) == (False, ("api/beta=true", "certificates.k8s.io/v1beta1"))
    assert (parse_arguments([]).metrics, parse_arguments([]).runtime_config) == (True, ())
