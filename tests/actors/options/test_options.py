from __future__ import annotations

import re
import tempfile

import pytest

from actors.app.arguments import read_options
from actors.options import InvalidOptions, Options, help_text
from actors.options.configz import configuration, flag_values
from actors.options.feature_gates import GATES
from runtime.flags.declaration import FlagError

FLAGS = read_options(["--help"]).flags


def options(*argv: str) -> Options:
    return read_options(argv)


def faults(*argv: str) -> tuple[str, ...]:
    with pytest.raises(InvalidOptions) as error:
        options(*argv)
    return error.value.errors


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
        # Where the articles say something else, or later releases have no such flag.
        ("node-monitor-grace-period", 40.0),
        ("address", "0.0.0.0"),
        ("port", 10252),
        ("pod-eviction-timeout", 300.0),
        ("enable-taint-manager", True),
        ("deleting-pods-qps", 0.1),
        ("deleting-pods-burst", 1),
        ("deployment-controller-sync-period", 30.0),
        ("logtostderr", True),
        # Ours.
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


def test_every_flag_has_a_name_of_its_own_and_a_line_of_help() -> None:
    names = [name for flag in FLAGS for name in (flag.name, *flag.former)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)
    assert [flag.name for flag in FLAGS if not flag.help.endswith(".")] == []


def test_every_field_is_reached_by_its_flag() -> None:
    for flag in FLAGS:
        word = flag.kind.bare or {"duration": "7s", "pattern=N,...": "a=7"}.get(flag.kind.name, "7")
        assert options("--help", f"--{flag.name}={word}").value_of(flag) == flag.kind.parse(word), flag.name


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
    assert "Flag --use-service-account-credentials has no effect yet" in started.warnings


@pytest.mark.parametrize(
    "argv, served",
    [
        ((), None),
        (("--port=8080",), ("0.0.0.0", 8080)),
        (("--address=127.0.0.1",), ("127.0.0.1", 10252)),
        (("--address=::1", "--port=1"), ("::1", 1)),
        (("--port=0", "--address=127.0.0.1"), None),
    ],
)
def test_plain_http_is_served_only_when_asked_for(argv: tuple[str, ...], served: tuple[str, int] | None) -> None:
    assert options(*argv).plain_http == served


@pytest.mark.parametrize(
    "argv, embedded",
    [((), True), (("--kubeconfig=k",), False), (("--master=http://127.0.0.1:8080",), False)],
)
def test_a_cluster_is_embedded_when_none_is_named(argv: tuple[str, ...], embedded: bool) -> None:
    assert options(*argv).embeds_cluster is embedded


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
    assert faults("--controllers=*,-foo,job,bar") == (
        '"-foo" is not in the list of known controllers',
        '"bar" is not in the list of known controllers',
    )


@pytest.mark.parametrize(
    "argv, fault",
    [
        (("--leader-elect-resource-lock=endpoints",), 'resourceLock value must be "leases"'),
        (("--leader-elect-lease-duration=10s",), "leaseDuration must be greater than renewDeadline"),
        (("--leader-elect-retry-period=9s",), "renewDeadline must be greater than retryPeriod*JitterFactor"),
        (
            ("--leader-elect-retry-period=0s",),
            "leaseDuration, renewDeadline and retryPeriod must be greater than zero",
        ),
        (("--leader-elect=false", "--enable-leader-migration"), "--enable-leader-migration requires --leader-elect"),
        *(
            ((f"--{name}=0",), f"{name} must be greater than 0, but got 0")
            for name in (
                "concurrent-job-syncs",
                "concurrent-cron-job-syncs",
                "concurrent-statefulset-syncs",
                "concurrent-daemonset-syncs",
                "concurrent-ephemeralvolume-syncs",
                "concurrent-horizontal-pod-autoscaler-syncs",
            )
        ),
        (
            ("--concurrent-device-taint-eviction-syncs=-1",),
            "concurrent-device-taint-eviction-syncs must be greater than zero, got -1",
        ),
        (("--concurrent-resourceclaim-syncs=0",), "concurrent-resourceclaim-syncs must be larger than 0, got 0"),
        (
            ("--concurrent-service-endpoint-syncs=0",),
            "concurrent-service-endpoint-syncs must not be less than 1, but got 0",
        ),
        (
            ("--concurrent-service-endpoint-syncs=51",),
            "concurrent-service-endpoint-syncs must not be more than 50, but got 51",
        ),
        (("--max-endpoints-per-slice=1001",), "max-endpoints-per-slice must not be more than 1000, but got 1001"),
        (
            ("--mirroring-max-endpoints-per-subset=0",),
            "mirroring-max-endpoints-per-subset must not be less than 1, but got 0",
        ),
        (
            ("--attach-detach-reconcile-sync-period=500ms",),
            "duration time must be greater than one second as set via command line option reconcile-sync-loop-period",
        ),
        (
            ("--cluster-signing-kubelet-client-key-file=k",),
            '"cluster-signing-kube-apiserver-client": cannot specify key without cert',
        ),
        (
            ("--cluster-signing-legacy-unknown-cert-file=c",),
            '"cluster-signing-legacy-unknown": cannot specify cert without key',
        ),
        (
            (
                "--cluster-signing-cert-file=c",
                "--cluster-signing-kubelet-serving-cert-file=c",
                "--cluster-signing-kubelet-serving-key-file=k",
            ),
            (
                "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags "
                "at the same time"
            ),
        ),
        (
            ("--service-cluster-ip-range=10.0.0.0/8,fd00::/108,10.1.0.0/16",),
            "--service-cluster-ip-range can not contain more than two entries",
        ),
        (
            ("--cloud-provider=aws",),
            (
                'cloud provider "aws" was specified, but built-in cloud providers are disabled. '
                "Please set --cloud-provider=external and migrate to an external cloud provider"
            ),
        ),
        (
            ("--cidr-allocator-type=CloudAllocator",),
            "built-in cloud providers are disabled. The ipam CloudAllocator is not available",
        ),
        (
            ("--secure-port=65536",),
            "--secure-port 65536 must be between 0 and 65535, inclusive. 0 for turning off secure port",
        ),
        (("--port=-1",), "--port -1 must be between 0 and 65535, inclusive. 0 for turning off insecure (HTTP) port"),
        (("--bind-address=localhost",), '--bind-address must be an IP address, but got "localhost"'),
        (("--tls-cert-file=c",), "--tls-cert-file and --tls-private-key-file must be given together"),
        (("--tls-min-version=TLS12",), 'unknown tls version "TLS12"'),
        (
            ("--requestheader-client-ca-file=c", "--requestheader-username-headers="),
            "--requestheader-client-ca-file needs --requestheader-username-headers",
        ),
        (("--logging-format=xml",), 'format: Invalid value: "xml": Unsupported log format'),
        (("--logging-format=json", "--vmodule=a=1"), "vmodule: Forbidden: Only supported for text log format"),
        (("--embedded-port=70000",), "--embedded-port 70000 must be between 0 and 65535, inclusive. 0 for a free one"),
        (("--hollow-nodes=-1",), "--hollow-nodes must not be less than 0, but got -1"),
        (("--apply=",), '--apply takes the path of a file, but got ""'),
        (("--apply=https://x/y.yml",), '--apply takes the path of a file, but got "https://x/y.yml"'),
        (("--hollow-zones=0",), "--hollow-zones must be greater than 0, but got 0"),
        (("--watch-silence-limit=0",), "--watch-silence-limit must be greater than zero"),
    ],
)
def test_what_cannot_be_is_said_in_upstreams_words(argv: tuple[str, ...], fault: str) -> None:
    assert faults(*argv) == (fault,)


@pytest.mark.parametrize(
    "argv",
    [
        ("--concurrent-rc-syncs=0",),
        ("--concurrent-replicaset-syncs=0", "--concurrent-deployment-syncs=0"),
        ("--cloud-provider=external",),
        ("--attach-detach-reconcile-sync-period=0s", "--disable-attach-detach-reconcile-sync"),
        ("--leader-elect=false", "--leader-elect-resource-lock=endpoints"),
        ("--cluster-signing-cert-file=c", "--cluster-signing-key-file=k"),
        ("--service-cluster-ip-range=10.0.0.0/8,fd00::/108",),
    ],
)
def test_what_upstream_lets_pass_passes(argv: tuple[str, ...]) -> None:
    assert options(*argv).given == {word.partition("=")[0].removeprefix("--") for word in argv}


def test_all_faults_are_told_together() -> None:
    with pytest.raises(InvalidOptions) as error:
        options("--concurrent-job-syncs=0", "--hollow-zones=0")
    assert str(error.value) == (
        "[concurrent-job-syncs must be greater than 0, but got 0, --hollow-zones must be greater than 0, but got 0]"
    )


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


def test_empty_arguments_are_let_pass() -> None:
    assert options("", "--v=1", "").logging.verbosity == 1


@pytest.mark.parametrize("argv", [("--help",), ("-h",), ("--version",), ("--version=raw",)])
def test_asking_for_help_or_the_version_checks_nothing_else(argv: tuple[str, ...]) -> None:
    asked = options(*argv, "--hollow-zones=0", "--feature-gates=Foo=true")
    assert asked.process.help or asked.process.version


def test_reporting_another_version_is_no_question() -> None:
    assert faults("--version=v1.30.0", "--hollow-zones=0")


@pytest.mark.parametrize(
    "setting, gate, state",
    [
        ("", "PodDeletionCost", True),
        ("PodDeletionCost=false", "PodDeletionCost", False),
        ("kube:PodDeletionCost=false", "PodDeletionCost", False),
        ("AllBeta=false", "PodDeletionCost", False),
        ("AllBeta=false,PodDeletionCost=true", "PodDeletionCost", True),
        ("PodDeletionCost=true,AllBeta=false", "PodDeletionCost", True),
        ("AllAlpha=true", "PodDeletionCost", True),
        ("AllAlpha=true", "HPAScaleToZero", True),
        ("AllBeta=true", "MaxUnavailableStatefulSet", True),
        ("TaintBasedEvictions=false", "TaintBasedEvictions", False),
        ("VolumeAttributesClass=true", "VolumeAttributesClass", True),
    ],
)
def test_feature_gates_are_switched(setting: str, gate: str, state: bool) -> None:
    gates = options(f"--feature-gates={setting}").feature_gates
    assert gates[gate] is state
    assert gates.keys() == GATES.keys()


@pytest.mark.parametrize(
    "setting, fault",
    [
        ("Foo=true", "unrecognized feature gate: Foo"),
        ("apiserver:PodDeletionCost=true", "component not registered: apiserver"),
        ("PodDeletionCost", "missing bool value for PodDeletionCost"),
        (
            "PodDeletionCost=yes",
            'invalid value of PodDeletionCost=yes, err: strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        (
            "VolumeAttributesClass=false",
            "cannot set feature gate VolumeAttributesClass to false, feature is locked to true",
        ),
    ],
)
def test_feature_gates_that_cannot_be_set_are_named(setting: str, fault: str) -> None:
    assert faults(f"--feature-gates={setting}") == (fault,)


def test_setting_a_gate_that_will_go_is_warned_about() -> None:
    assert options("--feature-gates=DRAPrioritizedList=true", "--feature-gates=TaintBasedEvictions=true").warnings == (
        "Setting GA feature gate DRAPrioritizedList=true. It will be removed in a future release.",
    )


def test_flags_of_later_issues_are_accepted_with_a_warning_and_those_of_this_one_without() -> None:
    assert options("--concurrent-job-syncs=3", "--log-file=x").warnings == (
        "Flag --concurrent-job-syncs has no effect yet",
        "Flag --log-file has no effect: Kubernetes 1.26 removed it",
    )
    assert options("--concurrent-rc-syncs=3", "--leader-elect", "--log_dir=d", "--v=2", "--port=0").warnings == ()


@pytest.mark.parametrize(
    "argv, directory, to_stderr",
    [
        ((), "", True),
        (("--log-dir=d",), "d", True),
        (("--log_dir=d", "--logtostderr=false"), "d", False),
        (("--log-dir=d", "--logtostderr=false", "--alsologtostderr"), "d", True),
        (("--logtostderr=false",), tempfile.gettempdir(), False),
    ],
)
def test_logs_go_where_the_flags_say(argv: tuple[str, ...], directory: str, to_stderr: bool) -> None:
    settings = options(*argv).logging.settings
    assert (settings.directory, settings.to_stderr) == (directory, to_stderr)


def test_verbosities_of_sources_are_numbers() -> None:
    assert options("--vmodule=rep*=4,job=2").logging.settings.vmodule == (("rep*", 4), ("job", 2))


def test_help_names_every_flag_that_is_not_hidden() -> None:
    text = help_text(options(), columns=100)
    for flag in FLAGS:
        assert (re.search(rf"^  .{{4}}--{flag.name}( |$)", text, re.MULTILINE) is not None) is not flag.hidden, (
            flag.name
        )
    assert "Replicaset-controller flags:" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_configuration_has_upstreams_shape() -> None:
    shown = configuration(options("--controllers=*,-job", "--concurrent-rc-syncs=7", "--kube-api-qps=-1"))
    assert shown["kind"] == "KubeControllerManagerConfiguration"
    assert shown["Generic"]["Controllers"] == ["*", "-job-controller"]
    assert shown["Generic"]["MinResyncPeriod"] == "12h0m0s"
    assert shown["Generic"]["ClientConnection"]["qps"] == -1
    assert shown["Generic"]["LeaderElection"]["leaseDuration"] == "15s"
    assert shown["ReplicationController"] == {"ConcurrentRCSyncs": 7}
    assert shown["CSRSigningController"]["KubeletServingSignerConfiguration"] == {"CertFile": "", "KeyFile": ""}
    assert shown["GarbageCollectorController"]["EnableGarbageCollector"] is True


def test_every_flag_is_shown_in_the_words_in_which_it_could_be_given() -> None:
    shown = flag_values(options("--controllers=*,-job", "--v=2", "--feature-gates=PodDeletionCost=false"))
    assert list(shown) == sorted(flag.name for flag in FLAGS)
    assert shown["controllers"] == "[*,-job-controller]"
    assert shown["feature-gates"] == "PodDeletionCost=false"
    assert (shown["v"], shown["leader-elect"], shown["kubeconfig"]) == ("2", "true", "")
    assert (shown["min-resync-period"], shown["node-eviction-rate"]) == ("12h0m0s", "0.1")
