"""Options in /configz and /flagz."""

from __future__ import annotations

from kcm.actors.app.arguments import read_options
from kcm.actors.options import Options
from kcm.actors.options.configz import configuration, flag_values, own_configuration

FLAGS = read_options(["--help"]).flags


def options(*argv: str) -> Options:
    return read_options(argv)


def test_the_configuration_has_upstreams_shape() -> None:
    shown = configuration(options("--controllers=*,-job", "--concurrent-rc-syncs=7", "--kube-api-qps=-1"))
    assert shown["kind"] == "KubeControllerManagerConfiguration"
    assert shown["Generic"]["Controllers"] == ["*", "-job-controller"]
    assert shown["Generic"]["MinResyncPeriod"] == "12h0m0s"
    assert shown["Generic"]["ClientConnection"]["qps"] == -1
    assert shown["Generic"]["LeaderElection"]["leaseDuration"] == "15s"
    assert shown["ReplicationController"] == {"ConcurrentRCSyncs": 7}
    assert shown["NodeLifecycleController"]["NodeMonitorGracePeriod"] == "40s"


def test_settings_without_effect_are_listed_separately() -> None:
    given = options(
        "--one-output",
        "--v=2",
        "--feature-gates=ImageVolumeWithDigest=true,PodDeletionCost=false",
    )
    text = str(configuration(given))
    for word in ("ResourceClaimController", "GCIgnoredResources"):
        assert word not in text
    own = own_configuration(given)
    assert own["flagsWithoutEffect"] == ["one-output"]
    assert own["featureGatesWithoutEffect"] == ["ImageVolumeWithDigest=true"]
    assert own["featureGates"]["PodDeletionCost"] is False
    assert own["featureGates"]["WatchListClient"] is True


def test_every_flag_is_shown_in_its_command_line_format() -> None:
    shown = flag_values(options("--controllers=*,-job", "--v=2", "--feature-gates=PodDeletionCost=false"))
    assert list(shown) == sorted(flag.name for flag in FLAGS)
    assert shown["controllers"] == "[*,-job-controller]"
    assert shown["feature-gates"] == "PodDeletionCost=false"
    assert (shown["v"], shown["leader-elect"], shown["kubeconfig"]) == ("2", "true", "")
    assert (shown["min-resync-period"], shown["node-eviction-rate"]) == ("12h0m0s", "0.1")
