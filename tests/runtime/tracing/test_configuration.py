"""Tracing configuration: kube-apiserver 1.36.2 printed these texts for the same files, except for Unix sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.runtime.tracing.configuration import TracingConfiguration, TracingError, read_tracing_configuration

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
NAMING = "https://github.com/grpc/grpc/blob/master/doc/naming.md"
DECODE = "failed to read tracing config: unable to decode tracing configuration data: "
VALIDATE = "failed to validate tracing configuration: "


def read(path: Path, text: str) -> TracingConfiguration:
    file = path / "tracing.yaml"
    file.write_text(text)
    return read_tracing_configuration(file)


@pytest.mark.parametrize(
    ("text", "url", "rate"),
    [
        ("", "", 0.0),
        ("samplingRatePerMillion: 12378\n", "", 0.012378),
        ("samplingRatePerMillion: 1000000\nendpoint: localhost:4317\n", "http://localhost:4317/v1/traces", 1.0),
        ("endpoint: collector\n", "http://collector:4318/v1/traces", 0.0),
        ("endpoint: dns://google.com:4317\n", "http://google.com:4317/v1/traces", 0.0),
        ("endpoint: dns://8.8.8.8/collector:4317\n", "http://collector:4317/v1/traces", 0.0),
        ("endpoint: dns:collector:4317\n", "http://collector:4317/v1/traces", 0.0),
        ("endpoint: ''\n", "", 0.0),
        ("endpoint: dns:///collector\n", "http://collector:4318/v1/traces", 0.0),
        ("endpoint: '[::1]:4318'\n", "http://[::1]:4318/v1/traces", 0.0),
        ("endpoint: '[::1]'\n", "http://[::1]:4318/v1/traces", 0.0),
    ],
)
def test_valid_configuration_is_read(tmp_path: Path, text: str, url: str, rate: float) -> None:
    assert read(tmp_path, HEAD + text) == TracingConfiguration(url=url, sampling_rate=rate)


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_older_versions_of_the_configuration_are_read(tmp_path: Path, version: str) -> None:
    assert read(tmp_path, HEAD.replace("/v1", f"/{version}")) == TracingConfiguration()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "[1]",
            (
                f"{DECODE}couldn't get version/kind; json parse error: json: cannot unmarshal array into Go "
                r'value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; '
                r'Kind string "json:\"kind,omitempty\"" }'
            ),
        ),
        (
            HEAD.replace("apiserver.config.k8s.io/v1", "5"),
            (
                f"{DECODE}couldn't get version/kind; json parse error: json: cannot unmarshal number into Go "
                "struct field .apiVersion of type string"
            ),
        ),
        (
            HEAD.replace("apiserver.config.k8s.io/v1", "a/b/c"),
            f"{DECODE}unexpected GroupVersion string: a/b/c",
        ),
        ("a: [\n", f"{DECODE}yaml: line 1: did not find expected node content"),
        (
            HEAD.replace("kind: TracingConfiguration", "kind: Other"),
            (
                f'{DECODE}no kind "Other" is registered for version "apiserver.config.k8s.io/v1" in scheme '
                '"k8s.io/apiserver/pkg/server/options/tracing.go:49"'
            ),
        ),
        (
            HEAD.replace("/v1", "/v2"),
            (
                f'{DECODE}no kind "TracingConfiguration" is registered for version "apiserver.config.k8s.io/v2" in '
                'scheme "k8s.io/apiserver/pkg/server/options/tracing.go:49"'
            ),
        ),
        (f"{HEAD}sampling: 1\n", f'{DECODE}strict decoding error: unknown field "sampling"'),
        (
            f"{HEAD}endpoint: a\nendpoint: b\n",
            f'{DECODE}strict decoding error: yaml: unmarshal errors:\n  line 4: key "endpoint" already set in map',
        ),
        (
            f"{HEAD}endpoint: 5\n",
            (
                f"{DECODE}json: cannot unmarshal number into Go struct field "
                "TracingConfiguration.TracingConfiguration.endpoint of type string"
            ),
        ),
        (
            f"{HEAD}samplingRatePerMillion: all\n",
            (
                f"{DECODE}json: cannot unmarshal string into Go struct field "
                "TracingConfiguration.TracingConfiguration.samplingRatePerMillion of type int32"
            ),
        ),
        (
            f"{HEAD}samplingRatePerMillion: 3000000000\n",
            (
                f"{DECODE}json: cannot unmarshal number 3000000000 into Go struct field "
                "TracingConfiguration.TracingConfiguration.samplingRatePerMillion of type int32"
            ),
        ),
        (
            f"{HEAD}samplingRatePerMillion: -1\n",
            f"{VALIDATE}samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
        ),
        (
            f"{HEAD}samplingRatePerMillion: 1000001\n",
            (
                f"{VALIDATE}samplingRatePerMillion: Invalid value: 1000001: "
                "sampling rate per million must be less than or equal to one million"
            ),
        ),
        (
            f"{HEAD}endpoint: http://localhost:4317\n",
            (
                f'{VALIDATE}endpoint: Invalid value: "http://localhost:4317": unsupported scheme: http.  '
                f"Options are none, dns, unix, or unix-abstract.  See {NAMING}"
            ),
        ),
        (
            f"{HEAD}endpoint: dn%2s://localhost:4317\n",
            (
                f'{VALIDATE}endpoint: Invalid value: "dn%2s://localhost:4317": parse "dn%2s://localhost:4317": '
                "first path segment in URL cannot contain colon"
            ),
        ),
        (
            f"{HEAD}endpoint: a:b\n",
            f'{VALIDATE}endpoint: Invalid value: "dns://a:b": parse "dns://a:b": invalid port ":b" after host',
        ),
        (
            f"{HEAD}endpoint: a b\n",
            f'{VALIDATE}endpoint: Invalid value: "dns://a b": parse "dns://a b": invalid character " " in host name',
        ),
        (
            f"{HEAD}samplingRatePerMillion: 1.5\n",
            (
                f"{DECODE}json: cannot unmarshal number 1.5 into Go struct field "
                "TracingConfiguration.TracingConfiguration.samplingRatePerMillion of type int32"
            ),
        ),
        (
            f"{HEAD}endpoint: unix://path/to/socket\n",
            (
                f'{VALIDATE}endpoint: Invalid value: "unix://path/to/socket": '
                "kcm sends traces by OTLP over HTTP, which has no Unix sockets"
            ),
        ),
        (
            f"{HEAD}endpoint: http://a\nsamplingRatePerMillion: -1\n",
            (
                f"{VALIDATE}[samplingRatePerMillion: Invalid value: -1: sampling rate must be positive, "
                'endpoint: Invalid value: "http://a": unsupported scheme: http.  '
                f"Options are none, dns, unix, or unix-abstract.  See {NAMING}]"
            ),
        ),
    ],
)
def test_invalid_configuration_is_refused(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(TracingError) as refusal:
        read(tmp_path, text)
    assert str(refusal.value) == error


@pytest.mark.parametrize("text", ["", "kind: TracingConfiguration\n", "samplingRatePerMillion: 0\n"])
def test_kind_and_version_may_be_omitted(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == TracingConfiguration()


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "none.yaml"
    unreadable = "failed to read tracing config: unable to read tracing configuration from"
    with pytest.raises(TracingError) as refusal:
        read_tracing_configuration(file)
    assert str(refusal.value) == f'{unreadable} "{file}": open {file}: no such file or directory'
    with pytest.raises(TracingError) as refusal:
        read_tracing_configuration(tmp_path)
    assert str(refusal.value) == f'{unreadable} "{tmp_path}": read {tmp_path}: is a directory'
