"""Flags of the signing controller, their validation, and the certificate and key files of each signer.

Source: kubernetes v1.36 cmd/kube-controller-manager/app/options/csrsigningcontroller.go, app/certificates.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kcm.actors.controllers.certificates.shared.requests import (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
)
from kcm.actors.options import ControllerOptions, Options
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION, quote

YEAR = 8760 * 3600.0


class SigningOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "CSRSigningController"

    cert_file: str = flag(
        "",
        "Path to the CA certificate for all signers.",
        name="cluster-signing-cert-file",
        config="ClusterSigningCertFile",
    )
    key_file: str = flag(
        "",
        "Path to the private key of --cluster-signing-cert-file.",
        name="cluster-signing-key-file",
        config="ClusterSigningKeyFile",
    )
    duration: float = flag(
        YEAR,
        "Maximum validity of signed certificates.",
        name="cluster-signing-duration",
        kind=DURATION,
        config="ClusterSigningDuration",
        former=("experimental-cluster-signing-duration",),
    )
    kubelet_serving_cert_file: str = flag(
        "",
        "Path to the CA certificate for the signer kubernetes.io/kubelet-serving.",
        name="cluster-signing-kubelet-serving-cert-file",
        config="KubeletServingSignerConfiguration.CertFile",
    )
    kubelet_serving_key_file: str = flag(
        "",
        "Path to the private key of --cluster-signing-kubelet-serving-cert-file.",
        name="cluster-signing-kubelet-serving-key-file",
        config="KubeletServingSignerConfiguration.KeyFile",
    )
    kubelet_client_cert_file: str = flag(
        "",
        "Path to the CA certificate for the signer kubernetes.io/kube-apiserver-client-kubelet.",
        name="cluster-signing-kubelet-client-cert-file",
        config="KubeletClientSignerConfiguration.CertFile",
    )
    kubelet_client_key_file: str = flag(
        "",
        "Path to the private key of --cluster-signing-kubelet-client-cert-file.",
        name="cluster-signing-kubelet-client-key-file",
        config="KubeletClientSignerConfiguration.KeyFile",
    )
    kube_apiserver_client_cert_file: str = flag(
        "",
        "Path to the CA certificate for the signer kubernetes.io/kube-apiserver-client.",
        name="cluster-signing-kube-apiserver-client-cert-file",
        config="KubeAPIServerClientSignerConfiguration.CertFile",
    )
    kube_apiserver_client_key_file: str = flag(
        "",
        "Path to the private key of --cluster-signing-kube-apiserver-client-cert-file.",
        name="cluster-signing-kube-apiserver-client-key-file",
        config="KubeAPIServerClientSignerConfiguration.KeyFile",
    )
    legacy_unknown_cert_file: str = flag(
        "",
        "Path to the CA certificate for the signer kubernetes.io/legacy-unknown.",
        name="cluster-signing-legacy-unknown-cert-file",
        config="LegacyUnknownSignerConfiguration.CertFile",
    )
    legacy_unknown_key_file: str = flag(
        "",
        "Path to the private key of --cluster-signing-legacy-unknown-cert-file.",
        name="cluster-signing-legacy-unknown-key-file",
        config="LegacyUnknownSignerConfiguration.KeyFile",
    )


class Files(NamedTuple):
    """Paths of a signer's CA certificate and private key; "" if unset."""

    certificate: str
    key: str


# Names of the signers in errors. They are upstream's, although two of them differ from the names of the flags.
_NAMES = {
    KUBELET_SERVING: "cluster-signing-kubelet-serving",
    KUBELET_CLIENT: "cluster-signing-kube-apiserver-client",
    KUBE_APISERVER_CLIENT: "cluster-signing-kube-apiserver",
    LEGACY_UNKNOWN: "cluster-signing-legacy-unknown",
}


def own_files(options: Options) -> Mapping[str, Files]:
    """Return the files that each signer's own flags name, such as --cluster-signing-kubelet-client-cert-file."""
    signing = options[SigningOptions]
    return {
        KUBELET_SERVING: Files(signing.kubelet_serving_cert_file, signing.kubelet_serving_key_file),
        KUBELET_CLIENT: Files(signing.kubelet_client_cert_file, signing.kubelet_client_key_file),
        KUBE_APISERVER_CLIENT: Files(signing.kube_apiserver_client_cert_file, signing.kube_apiserver_client_key_file),
        LEGACY_UNKNOWN: Files(signing.legacy_unknown_cert_file, signing.legacy_unknown_key_file),
    }


def files_of_signers(options: Options) -> Mapping[str, Files]:
    """Return the certificate and key file of each enabled signer. A signer without files is disabled.

    The files of --cluster-signing-cert-file and --cluster-signing-key-file are used for all signers, unless any signer
    has files of its own. Then signers without files of their own are disabled.
    """
    own = {signer: files for signer, files in own_files(options).items() if any(files)}
    if own:
        return own
    common = Files(options[SigningOptions].cert_file, options[SigningOptions].key_file)
    return dict.fromkeys(_NAMES, common) if all(common) else {}


def check_files(options: Options) -> Iterator[str]:
    """Yield an error message for each invalid combination of flags (upstream: CSRSigningControllerOptions.Validate)."""
    own = own_files(options)
    for signer, name in _NAMES.items():
        if own[signer].key and not own[signer].certificate:
            yield f"{quote(name)}: cannot specify key without cert"
        if own[signer].certificate and not own[signer].key:
            yield f"{quote(name)}: cannot specify cert without key"
    signing = options[SigningOptions]
    if (signing.cert_file or signing.key_file) and any(any(files) for files in own.values()):
        yield (
            "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time"
        )
