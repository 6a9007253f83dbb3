"""Tests of the flags for cluster CIDRs, and of their validation."""

from __future__ import annotations

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.nodes.node_ipam.cluster_cidrs import cluster_cidrs
from kcm.actors.controllers.nodes.node_ipam.options import NodeIpamOptions
from kcm.actors.options import InvalidOptionsError

ALLOCATE = "--allocate-node-cidrs"
V4, V6, DUAL = "--cluster-cidr=10.0.0.0/16", "--cluster-cidr=fd00::/48", "--cluster-cidr=10.0.0.0/16,fd00::/48"

BOTH_KINDS = (
    "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if "
    "--node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags"
)
TOO_LARGE = (
    "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to "
    "--node-cidr-mask-size configured for CIDR family"
)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([V4], [("10.0.0.0/16", 24)]),
        ([V6], [("fd00::/48", 64)]),
        ([DUAL], [("10.0.0.0/16", 24), ("fd00::/48", 64)]),
        (["--cluster-cidr=fd00::/48,10.0.0.0/16"], [("fd00::/48", 64), ("10.0.0.0/16", 24)]),
        (["--cluster-cidr=10.0.7.9/16"], [("10.0.0.0/16", 24)]),
        ([V4, "--node-cidr-mask-size=26"], [("10.0.0.0/16", 26)]),
        ([V6, "--node-cidr-mask-size=60"], [("fd00::/48", 60)]),
        ([V4, "--node-cidr-mask-size-ipv4=25"], [("10.0.0.0/16", 25)]),
        ([V6, "--node-cidr-mask-size-ipv6=56"], [("fd00::/48", 56)]),
        ([DUAL, "--node-cidr-mask-size-ipv4=25"], [("10.0.0.0/16", 25), ("fd00::/48", 64)]),
        (
            [DUAL, "--node-cidr-mask-size-ipv4=25", "--node-cidr-mask-size-ipv6=60"],
            [("10.0.0.0/16", 25), ("fd00::/48", 60)],
        ),
        (["--cluster-cidr=10.0.0.0/24"], [("10.0.0.0/24", 24)]),
        (["--cluster-cidr=beef:1234::/32", "--node-cidr-mask-size-ipv6=48"], [("beef:1234::/32", 48)]),
    ],
)
def test_mask_sizes_follow_the_flags(flags: list[str], expected: list[tuple[str, int]]) -> None:
    options = read_options([ALLOCATE, *flags])
    ranges = cluster_cidrs(options.cloud, options[NodeIpamOptions])
    assert [(str(cluster), mask) for cluster, mask in ranges.clusters] == expected


@pytest.mark.parametrize(
    ("flag", "services", "unreadable"),
    [
        ("", [], ()),
        ("10.96.0.0/12", ["10.96.0.0/12"], ()),
        ("10.96.0.0/12,fd01::/108", ["10.96.0.0/12", "fd01::/108"], ()),
        ("nonsense", [], ("nonsense",)),
        ("nonsense,fd01::/108", ["fd01::/108"], ("nonsense",)),
    ],
)
def test_malformed_service_ranges_are_ignored(flag: str, services: list[str], unreadable: tuple[str, ...]) -> None:
    options = read_options([ALLOCATE, V4, f"--service-cluster-ip-range={flag}"])
    ranges = cluster_cidrs(options.cloud, options[NodeIpamOptions])
    assert [str(service) for service in ranges.services] == services
    assert ranges.unreadable == unreadable


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ([], "Controller: Must specify --cluster-cidr if --allocate-node-cidrs is set"),
        (
            ["--cluster-cidr=10.0.0/16"],
            "invalid CIDR[0]: <nil> (invalid CIDR address: 10.0.0/16)",
        ),
        (
            ["--cluster-cidr=10.0.0.0/16,fd00::/48,10.1.0.0/16"],
            "length of clusterCIDRs is:3 more than max allowed of 2",
        ),
        (
            ["--cluster-cidr=10.0.0.0/16,10.1.0.0/16"],
            "len of ClusterCIDRs==2 and they are not configured as dual stack (at least one from each IPFamily",
        ),
        (
            [V4, "--service-cluster-ip-range=10.96.0.0/12,10.112.0.0/12"],
            "serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)",
        ),
        (
            [DUAL, "--node-cidr-mask-size=24"],
            "usage of --node-cidr-mask-size is not allowed with dual-stack clusters",
        ),
        *(
            (
                [V4, "--node-cidr-mask-size=24", f"--node-cidr-mask-size-{family}=24"],
                BOTH_KINDS,
            )
            for family in ("ipv4", "ipv6")
        ),
        (
            [V6, "--node-cidr-mask-size-ipv4=24"],
            "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster",
        ),
        (
            [V4, "--node-cidr-mask-size-ipv6=64"],
            "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster",
        ),
        *(
            (
                [V4, f"--node-cidr-mask-size={mask}"],
                TOO_LARGE,
            )
            for mask in (15, 33)
        ),
        (
            ["--cluster-cidr=beef:1234::/32", "--node-cidr-mask-size-ipv6=49"],
            "New CIDR set failed; the node CIDR size is too big",
        ),
    ],
)
def test_invalid_flags_are_reported_with_upstreams_texts(flags: list[str], error: str) -> None:
    with pytest.raises(InvalidOptionsError) as caught:
        read_options([ALLOCATE, *flags])
    assert caught.value.errors == (error,)


@pytest.mark.parametrize("flags", [[], [ALLOCATE, "--controllers=*,-nodeipam"], ["--allocate-node-cidrs=false"]])
def test_flags_of_disabled_controller_are_not_checked(flags: list[str]) -> None:
    assert read_options(["--cluster-cidr=nonsense", *flags]).cloud.cluster_cidr == "nonsense"
