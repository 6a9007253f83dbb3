from __future__ import annotations

import pytest

from kcm.runtime.apiserver.kinds.runtime_config import served_kinds

BUNDLES, REQUESTS = "clustertrustbundles", "podcertificaterequests"
CANDIDATES = "leasecandidates"
WORKLOADS, GROUPS = "workloads", "podgroups"  # of an alpha version
RULES, POOLS = "devicetaintrules", "resourcepoolstatusrequests"  # of a beta and an alpha version
VERSIONS, MIGRATIONS = "storageversions", "storageversionmigrations"  # of an alpha and a beta version
BETA, ALPHA = {BUNDLES, REQUESTS, CANDIDATES, RULES, MIGRATIONS}, {WORKLOADS, GROUPS, POOLS, VERSIONS}
OPTIONAL = BETA | ALPHA


@pytest.mark.parametrize(
    ("config", "served"),
    [
        ((), set()),
        (("certificates.k8s.io/v1beta1",), {BUNDLES, REQUESTS}),
        (("certificates.k8s.io/v1beta1=true",), {BUNDLES, REQUESTS}),
        (("certificates.k8s.io/v1beta1/clustertrustbundles=true",), {BUNDLES}),
        (("api/beta=true",), BETA),
        (("api/alpha=true",), ALPHA),
        (("scheduling.k8s.io/v1alpha2",), {WORKLOADS, GROUPS}),
        (("resource.k8s.io/v1beta2/devicetaintrules",), {RULES}),
        (("resource.k8s.io/v1alpha3",), {POOLS}),
        (("internal.apiserver.k8s.io/v1alpha1",), {VERSIONS}),
        (("storagemigration.k8s.io/v1beta1",), {MIGRATIONS}),
        (("api/all",), OPTIONAL),
        (("api/all=1", "api/beta=0"), ALPHA),
        (("api/all=1", "api/alpha=0"), BETA),
        (("api/all", "certificates.k8s.io/v1beta1=false"), {CANDIDATES, RULES, MIGRATIONS, *ALPHA}),
        (
            ("api/beta", "certificates.k8s.io/v1beta1/podcertificaterequests=false"),
            {BUNDLES, CANDIDATES, RULES, MIGRATIONS},
        ),
        (("certificates.k8s.io/v1beta1=false",), set()),
    ],
)
def test_alpha_and_beta_kinds_are_served_as_configured(config: tuple[str, ...], served: set[str]) -> None:
    kinds = served_kinds(config)
    assert {kind.plural for kind in kinds} & OPTIONAL == served
    assert any(kind.plural == "pods" for kind in kinds)


def test_kind_with_a_feature_gate_is_served_only_if_the_gate_is_enabled() -> None:
    for gates in ((), ("StorageVersionMigrator",), ("GenericWorkload",)):
        served = {kind.plural for kind in served_kinds(("api/all",), gates)} & OPTIONAL
        migrations = {MIGRATIONS} if "StorageVersionMigrator" in gates else set()
        groups = {WORKLOADS, GROUPS} if "GenericWorkload" in gates else set()
        assert served == (OPTIONAL - {MIGRATIONS, WORKLOADS, GROUPS}) | migrations | groups


@pytest.mark.parametrize("text", ["apps/v1=false", "apps/v1beta1", "nosuch", "api/ga=false", "api/all=maybe", "=true"])
def test_unknown_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        served_kinds((text,))
