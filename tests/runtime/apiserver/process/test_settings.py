"""Settings of the server's process, and their command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcm.runtime.apiserver.process.settings import ALWAYS_ALLOW, ServerSettings, parse_settings
from kcm.runtime.flags.declaration import FlagError

OTHER_VALUES: dict[str, Any] = {
    "directory": Path("/srv/kcm"),
    "durability": "relaxed",
    "log_format": "json",
    "authorization": ALWAYS_ALLOW,
    "patience": 20.5,
    "service_ranges": ("10.0.0.0/16", "fd00::/108"),
}


def other_value(name: str, default: Any) -> Any:
    """Return a value that is not the default."""
    if name in OTHER_VALUES:
        return OTHER_VALUES[name]
    match default:
        case bool():
            return not default
        case int():
            return default + 7
        case tuple():
            return ("a", "b")
    return "/some/file"


@pytest.mark.parametrize("name", ServerSettings.__struct_fields__)
def test_setting_round_trips_through_the_command_line(name: str) -> None:
    settings = ServerSettings(**{name: other_value(name, getattr(ServerSettings(), name))})
    assert settings != ServerSettings()
    assert len(list(settings.arguments())) == 1
    assert parse_settings([*settings.arguments()]) == settings


def test_all_settings_round_trip_through_the_command_line() -> None:
    names = ServerSettings.__struct_fields__
    settings = ServerSettings(**{name: other_value(name, getattr(ServerSettings(), name)) for name in names})
    assert parse_settings([*settings.arguments()]) == settings


def test_defaults_need_no_arguments() -> None:
    assert [*ServerSettings().arguments()] == []
    assert parse_settings([]) == ServerSettings()


def test_no_disabled_plugins_are_passed_on() -> None:
    settings = ServerSettings(disable_plugins=())
    assert parse_settings([*settings.arguments()]) == settings


def test_relative_path_is_resolved_before_it_is_passed_on() -> None:
    [argument] = ServerSettings(client_ca_file="ca.crt").arguments()
    assert argument == f"--client-ca-file={Path('ca.crt').resolve()}"


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        (ServerSettings(), True),
        (ServerSettings(anonymous_auth=False), False),
        (ServerSettings(authorization=ALWAYS_ALLOW), False),
    ],
)
def test_anonymous_requests_are_never_allowed_everything(settings: ServerSettings, allowed: bool) -> None:
    assert settings.allows_anonymous is allowed


@pytest.mark.parametrize("gates", [(), ("GenericWorkload",)])
def test_gates_are_passed_on(gates: tuple[str, ...]) -> None:
    assert parse_settings(ServerSettings(gates=gates).arguments()).gates == gates


def test_kinds_to_serve_are_parsed() -> None:
    given = parse_settings(["--metrics=false", "--runtime-config=api/beta=true,certificates.k8s.io/v1beta1"])
    assert (given.metrics, given.runtime_config) == (False, ("api/beta=true", "certificates.k8s.io/v1beta1"))


@pytest.mark.parametrize("argument", ["--durability=some", "--port=x", "--no-such-flag", "positional"])
def test_invalid_argument_is_refused(argument: str) -> None:
    with pytest.raises(FlagError):
        parse_settings([argument])
