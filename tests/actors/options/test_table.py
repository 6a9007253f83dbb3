"""All options and their flags: defaults, names, and values derived from several options."""

from __future__ import annotations

import re

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.options import Options

FLAGS = read_options(["--help"]).flags


def options(*argv: str) -> Options:
    return read_options(argv)


@pytest.mark.parametrize(
    "name, default",
    [
        # A wide sample of the defaults of 1.36, over all kinds of value.
        ("profiling", True),
        ("controllers", ("*",)),
        ("controller-start-interval", 0.0),
        ("controller-shutdown-timeout", 10.0),
        ("min-resync-period", 43200.0),
        ("kube-api-qps", 20.0),
        ("kube-api-burst", 30),
        ("kube-api-content-type", "application/vnd.kubernetes.protobuf"),
        ("leader-elect", True),
        ("leader-elect-lease-duration", 15.0),
        ("leader-elect-renew-deadline", 10.0),
        ("leader-elect-retry-period", 2.0),
        ("leader-elect-resource-lock", "leases"),
        ("leader-elect-resource-name", "kube-controller-manager"),
        ("leader-elect-resource-namespace", "kube-system"),
        ("bind-address", "0.0.0.0"),
        ("secure-port", 10257),
        ("authorization-always-allow-paths", ("/healthz", "/readyz", "/livez")),
        ("requestheader-extra-headers-prefix", ("x-remote-extra-",)),
        ("cluster-name", "kubernetes"),
        ("cidr-allocator-type", "RangeAllocator"),
        ("cluster-signing-duration", 8760 * 3600.0),
        ("concurrent-daemonset-syncs", 2),
        ("concurrent-deployment-syncs", 5),
        ("concurrent-gc-syncs", 20),
        ("concurrent-namespace-syncs", 10),
        ("concurrent-resourceclaim-syncs", 50),
        ("concurrent-service-syncs", 1),
        ("terminated-pod-gc-threshold", 12500),
        ("max-endpoints-per-slice", 100),
        ("mirroring-max-endpoints-per-subset", 1000),
        ("horizontal-pod-autoscaler-tolerance", 0.1),
        ("horizontal-pod-autoscaler-downscale-stabilization", 300.0),
        ("pv-recycler-timeout-increment-hostpath", 30),
        ("node-eviction-rate", 0.1),
        ("secondary-node-eviction-rate", 0.01),
        ("unhealthy-zone-threshold", 0.55),
        ("large-cluster-size-threshold", 50),
        ("node-startup-grace-period", 60.0),
        ("logging-format", "text"),
        ("v", 0),
        # Flags that later releases removed, or whose documented defaults in articles are wrong.
        ("node-monitor-grace-period", 40.0),
        ("port", 10252),
        ("pod-eviction-timeout", 300.0),
        ("enable-taint-manager", True),
        ("deleting-pods-qps", 0.1),
        ("deleting-pods-burst", 1),
        ("deployment-controller-sync-period", 30.0),
        ("logtostderr", True),
        # Flags of kcm.
        ("address", "127.0.0.1"),
        ("embedded-dir", ".kcm/"),
        ("embedded-port", 0),
        ("hollow-nodes", 3),
        ("hollow-zones", 2),
        ("apply", ()),
    ],
)
def test_defaults_are_those_of_the_reference(name: str, default: object) -> None:
    (flag,) = [flag for flag in FLAGS if flag.name == name]
    assert Options().value_of(flag) == flag.default == default


def test_every_flag_has_a_unique_name_and_a_line_of_help() -> None:
    names = [name for flag in FLAGS for name in (flag.name, *flag.former)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)
    assert [flag.name for flag in FLAGS if not flag.help.endswith(".")] == []


def test_every_field_is_set_by_its_flag() -> None:
    words = {
        "duration": "7s",
        "pattern=N,...": "a=7",
        "cert,key[:name,...]": "7.crt,7.key:seven",
        "stringToString": "m,l=7",
    }
    for flag in FLAGS:
        word = flag.kind.bare or words.get(flag.kind.name, "7")
        assert options("--help", f"--{flag.name}={word}").value_of(flag) == flag.kind.parse(word), flag.name


@pytest.mark.parametrize(
    "argv, served",
    [
        ((), None),
        (("--port=8080",), ("127.0.0.1", 8080)),
        (("--address=127.0.0.1",), ("127.0.0.1", 10252)),
        (("--address=::1", "--port=1"), ("::1", 1)),
        (("--port=0", "--address=127.0.0.1"), None),
    ],
)
def test_plain_http_is_served_only_if_enabled(argv: tuple[str, ...], served: tuple[str, int] | None) -> None:
    assert options(*argv).plain_http == served


@pytest.mark.parametrize(
    "argv, embedded",
    [((), True), (("--kubeconfig=k",), False), (("--master=http://127.0.0.1:8080",), False)],
)
def test_a_cluster_is_embedded_when_none_is_named(argv: tuple[str, ...], embedded: bool) -> None:
    assert options(*argv).embeds_cluster is embedded


def test_options_of_two_command_lines_can_be_merged() -> None:
    first = options("--node-eviction-rate=0.2", "--max-endpoints-per-slice=2", "--cluster-name=one", "--port=1")
    other = ("--max-endpoints-per-slice=3", "--cluster-name=two", "--feature-gates=TaintBasedEvictions=false")
    second = options(*other, "--address=::1")
    both = options("--node-eviction-rate=0.2", *other, "--address=::1", "--port=1")
    merged = first.with_given_of(second)
    assert [flag.name for flag in FLAGS if merged.value_of(flag) != both.value_of(flag)] == []
    assert (merged.given, merged.feature_gates, merged.flags) == (both.given, both.feature_gates, both.flags)
    assert first.with_given_of(Options()) == first
