"""Parser of the command line."""

from __future__ import annotations

import re

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.options import InvalidOptionsError, Options, help_text
from kcm.runtime.flags.declaration import FlagError

FLAGS = read_options(["--help"]).flags


def options(*argv: str) -> Options:
    return read_options(argv)


def faults(*argv: str) -> tuple[str, ...]:
    with pytest.raises(InvalidOptionsError) as error:
        options(*argv)
    return error.value.errors


def test_the_static_pod_of_the_articles_starts() -> None:
    started = options(
        "--address=127.0.0.1",
        "--cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt",
        "--cluster-signing-key-file=/etc/kubernetes/pki/ca.key",
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--leader-elect=true",
        "--root-ca-file=/etc/kubernetes/pki/ca.crt",
        "--service-account-private-key-file=/etc/kubernetes/pki/sa.key",
        "--use-service-account-credentials=true",
    )
    assert started.plain_http == ("127.0.0.1", 10252)
    assert started.generic.controllers == ("*", "bootstrap-signer-controller", "token-cleaner-controller")
    assert started.client.kubeconfig == "/etc/kubernetes/controller-manager.conf"
    assert not started.embeds_cluster
    assert [warning for warning in started.warnings if "account" in warning or "root-ca" in warning] == []


def test_aliases_of_controllers_become_their_names() -> None:
    given = "deployment,-job,-cronjob-controller,podgc,token-cleaner-controller"
    assert options(f"--controllers={given}").generic.controllers == (
        "deployment-controller",
        "-job-controller",
        "-cronjob-controller",
        "pod-garbage-collector-controller",
        "token-cleaner-controller",
    )


def test_unknown_controllers_are_all_named() -> None:
    assert faults("--controllers=*,-foo,job,bar,-*") == (
        '"foo" is not in the list of known controllers',
        '"bar" is not in the list of known controllers',
        '"*" is not in the list of known controllers',  # as upstream: "--controllers=" disables all controllers
    )
    assert options("--controllers=").generic.controllers == ()


@pytest.mark.parametrize(
    "argv, text",
    [
        (("--x",), "unknown flag: --x"),
        (("extra",), '"kcm" does not take any arguments, got ["extra"]'),
        (("a", "", "b"), '"kcm" does not take any arguments, got ["a" "" "b"]'),
    ],
)
def test_a_line_that_cannot_be_read_is_refused(argv: tuple[str, ...], text: str) -> None:
    with pytest.raises(FlagError) as error:
        options(*argv)
    assert str(error.value) == text


def test_empty_arguments_are_ignored() -> None:
    assert options("", "--v=1", "").logging.verbosity == 1


@pytest.mark.parametrize("argv", [("--help",), ("-h",), ("--version",), ("--version=raw",)])
def test_help_and_version_skip_all_other_checks(argv: tuple[str, ...]) -> None:
    asked = options(*argv, "--hollow-zones=0", "--feature-gates=Foo=true")
    assert asked.process.help or asked.process.version


def test_other_flags_are_checked_if_the_version_is_overridden() -> None:
    assert faults("--version=v1.30.0", "--hollow-zones=0")


def test_setting_a_gate_that_will_go_is_warned_about() -> None:
    assert options("--feature-gates=DRAPrioritizedList=true", "--feature-gates=TaintBasedEvictions=true").warnings == (
        "Setting GA feature gate DRAPrioritizedList=true. It will be removed in a future release.",
    )


def test_flags_without_effect_are_accepted_with_a_warning() -> None:
    assert options("--one-output").warnings == ("Flag --one-output has no effect: Kubernetes 1.26 removed it",)
    assert options("--concurrent-rc-syncs=3", "--leader-elect", "--log_dir=d", "--v=2", "--port=0").warnings == ()


def test_help_lists_every_flag_that_is_not_hidden() -> None:
    text = help_text(options(), columns=100)
    for flag in FLAGS:
        assert (re.search(rf"^  .{{4}}--{flag.name}( |$)", text, re.MULTILINE) is not None) is not flag.hidden, (
            flag.name
        )
    assert "Replicaset-controller flags:" in text
    assert max(map(len, text.splitlines())) <= 100
