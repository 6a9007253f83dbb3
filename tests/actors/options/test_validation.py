"""Errors of invalid options, with upstream's texts."""

from __future__ import annotations

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.options import InvalidOptionsError, Options


def options(*argv: str) -> Options:
    return read_options(argv)


def faults(*argv: str) -> tuple[str, ...]:
    with pytest.raises(InvalidOptionsError) as error:
        options(*argv)
    return error.value.errors


ALPHA_LOGGING = "Forbidden: Feature LoggingAlphaOptions is disabled"


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
        (("--leader-elect-on-loss=stay",), "--leader-elect-on-loss is 'exit' or 'standby', but got \"stay\""),
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
        (
            ("--disabled-metrics=a-b",),
            (
                'metrics.disabledMetrics: Invalid value: ["a-b"]: must be fully qualified metric names matching '
                '"^[a-zA-Z_:][a-zA-Z0-9_:]*$", got "a-b"'
            ),
        ),
        (
            ("--show-hidden-metrics-for-version=1.30",),
            (
                'metrics.showHiddenMetricsForVersion: Invalid value: "1.30": must be omitted or have the value '
                "'1.35'; only the previous minor version is allowed"
            ),
        ),
        (
            ("--allow-metric-labels=foo=bar",),
            (
                'metrics.allowListMapping: Invalid value: {"foo":"bar"}: must have keys with format '
                "`metricName,labelName` where metricName matches "
                '"[a-zA-Z_:][a-zA-Z0-9_:]*" and labelName matches "[a-zA-Z_][a-zA-Z0-9_]*"'
            ),
        ),
        (
            ("--allow-metric-labels=m,l=1", "--allow-metric-labels-manifest=f"),
            (
                'metrics: Invalid value: {"allowListMapping":{"m,l":"1"},"allowListMappingManifest":"f"}: cannot '
                "specify both allowListMapping and allowListMappingManifest"
            ),
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
            "--secure-port 65536 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
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
        (("--log-flush-frequency=0s",), 'flushFrequency: Invalid value: "0s": Must be greater than zero'),
        (("--log-text-split-stream",), f"options.text.splitStream: {ALPHA_LOGGING}"),
        (("--log-text-info-buffer-size=1Ki",), f"options.text.infoBufferSize: {ALPHA_LOGGING}"),
        (("--log-json-split-stream",), f"options.json.splitStream: {ALPHA_LOGGING}"),
        (("--log-json-info-buffer-size=5",), f"options.json.infoBufferSize: {ALPHA_LOGGING}"),
        (
            ("--log-flush-frequency=-1s", "--secure-port=99999"),
            'flushFrequency: Invalid value: "-1s": Must be greater than zero',
        ),
        (("--embedded-port=70000",), "--embedded-port 70000 must be between 0 and 65535, inclusive. 0 for a free one"),
        (("--hollow-nodes=-1",), "--hollow-nodes must not be less than 0, but got -1"),
        (("--apply=",), '--apply takes the path of a file, but got ""'),
        (("--apply=https://x/y.yml",), '--apply takes the path of a file, but got "https://x/y.yml"'),
        (("--hollow-zones=0",), "--hollow-zones must be greater than 0, but got 0"),
        (("--watch-silence-limit=0",), "--watch-silence-limit must be greater than zero"),
        (("--reconcile-timeout=-1s",), "--reconcile-timeout must not be negative"),
        (("--health-starved-after=-1s",), "--health-starved-after must not be negative"),
        (("--health-failing-syncs=0",), "--health-failing-syncs must be greater than 0, but got 0"),
        (("--health-deaf-after=2m",), "--health-deaf-after must be greater than --watch-silence-limit, or 0"),
    ],
)
def test_invalid_options_have_upstreams_error_texts(argv: tuple[str, ...], fault: str) -> None:
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
        ("--feature-gates=LoggingAlphaOptions=true", "--log-text-split-stream", "--log-json-info-buffer-size=1M"),
    ],
)
def test_options_that_upstream_accepts_are_accepted(argv: tuple[str, ...]) -> None:
    assert options(*argv).given == {word.partition("=")[0].removeprefix("--") for word in argv}


def test_all_errors_are_reported_together() -> None:
    with pytest.raises(InvalidOptionsError) as error:
        options("--concurrent-job-syncs=0", "--hollow-zones=0")
    assert str(error.value) == (
        "[concurrent-job-syncs must be greater than 0, but got 0, --hollow-zones must be greater than 0, but got 0]"
    )
