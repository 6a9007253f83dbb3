"""Tests of the signer: signed and rejected requests, lifetimes, flags, and replaced CA files.

Cases of kubernetes v1.36 pkg/controller/certificates/signer/signer_test.go.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.certificates import approver
from kcm.actors.controllers.certificates.shared.requests import CERTIFICATE_SIGNING_REQUESTS
from kcm.actors.controllers.certificates.signing import SPEC
from kcm.actors.controllers.certificates.signing.options import Files, files_of_signers
from kcm.actors.controllers.certificates.signing.reconciler import Signer, SigningError
from kcm.actors.controllers.certificates.signing.rules import RULES, lifetime
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import NOW, Bench, Driven, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Update
from kcm.protocols.messages.outcomes import Conflict, Outcome
from kcm.protocols.objects import Object, decode_object
from kcm.runtime.simulation.keys import AuthorityFiles, PemKeyPair, authority_pair, request_pem
from kcm.runtime.x509.key_files import KeyFiles
from tests.actors.controllers.certificates.builders import (
    CLIENT_USAGES,
    KUBELET_CLIENT,
    NODE,
    NODES,
    SERVING_USAGES,
    condition,
    csr,
)

DAY = 86400.0
PAIR = authority_pair("ca", begin=NOW - DAY, end=NOW + 10 * DAY)
APPROVED = condition("Approved")
SERVING, CLIENT, LEGACY = (
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client",
    "kubernetes.io/legacy-unknown",
)
SERVED = request_pem(NODE, NODES, dns_names=["n1"], ip_addresses=["10.0.0.1"])


class Reading:
    def __init__(self, pair: PemKeyPair = PAIR) -> None:
        self.pair = pair

    def __call__(self, path: str) -> bytes:
        return self.pair.key if path == "key" else self.pair.certificate


def run(request: Object, *, signers: Any = tuple(RULES), pair: PemKeyPair = PAIR, answer: Any = None) -> Driven:
    bench = Bench({CERTIFICATE_SIGNING_REQUESTS: [request]})
    keys = KeyFiles("certificate", "key", read=Reading(pair))
    signer = Signer(tables=bench.tables, clock=bench.clock, keys=dict.fromkeys(signers, keys), max_lifetime=365 * DAY)
    return drive(signer, "r", bench.accept if answer is None else answer(bench), tables=bench.tables)


def written(driven: Driven) -> dict[str, Any]:
    [update] = driven.of(Update)
    assert (update.key, update.subresource) == ("r", "status")
    status: dict[str, Any] = decode_object(update.body)["status"]
    return status


def certificate_of(status: dict[str, Any]) -> x509.Certificate:
    pem = base64.b64decode(status["certificate"])
    assert pem.count(b"BEGIN") == 1
    return x509.load_pem_x509_certificate(pem)


def approved(**fields: Any) -> Object:
    return csr(**{"conditions": [APPROVED], **fields})


@pytest.mark.parametrize(
    "request_",
    [
        approved(),
        approved(usages=("digital signature", "client auth")),
        approved(signer=SERVING, usages=SERVING_USAGES, pem=SERVED),
        approved(signer=SERVING, usages=("server auth", "digital signature"), pem=SERVED),
        approved(signer=SERVING, usages=SERVING_USAGES, pem=request_pem(NODE, NODES, dns_names=["n1"])),
        approved(signer=SERVING, usages=SERVING_USAGES, pem=request_pem(NODE, NODES, ip_addresses=["::1"])),
        approved(signer=CLIENT, pem=request_pem("hello-world", "some-org"), usages=("client auth",)),
        approved(signer=CLIENT, pem=request_pem("a", dns_names=["b"], uris=["c:d"])),
        approved(signer=LEGACY, pem=request_pem("x"), usages=("client auth", "server auth", "cert sign")),
        approved(conditions=[APPROVED, condition("Failed", status="False")]),
    ],
)
def test_valid_request_is_signed(request_: Object) -> None:
    status = written(run(request_))
    assert status["conditions"] == request_["status"]["conditions"]
    made = certificate_of(status)
    wanted = x509.load_pem_x509_csr(base64.b64decode(request_["spec"]["request"]))
    assert (made.subject, made.public_key()) == (wanted.subject, wanted.public_key())
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(PAIR.certificate))


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (
            approved(usages=(*CLIENT_USAGES, "server auth")),
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (approved(pem=request_pem(NODE)), "subject organization is not system:nodes"),
        (approved(pem=request_pem(NODE, NODES, "x")), "subject organization is not system:nodes"),
        (approved(pem=request_pem("n1", NODES)), "subject common name does not begin with system:node:"),
        (approved(pem=request_pem(NODE, NODES, dns_names=["a"])), "DNS subjectAltNames are not allowed"),
        (approved(pem=request_pem(NODE, NODES, ip_addresses=["::1"])), "IP subjectAltNames are not allowed"),
        (approved(pem=request_pem(NODE, NODES, uris=["a:b"])), "URI subjectAltNames are not allowed"),
        (approved(pem=request_pem(NODE, NODES, email_addresses=["a@b"])), "Email subjectAltNames are not allowed"),
        (approved(signer=SERVING, usages=SERVING_USAGES), "DNS or IP subjectAltName is required"),
        (
            approved(signer=SERVING, pem=SERVED),
            "usages did not match [digital signature key encipherment server auth]",
        ),
        (
            approved(signer=SERVING, usages=SERVING_USAGES, pem=request_pem(NODE, dns_names=["n1"])),
            "subject organization is not system:nodes",
        ),
        (
            approved(signer=SERVING, usages=SERVING_USAGES, pem=request_pem("n1", NODES, dns_names=["n1"])),
            "subject common name does not begin with system:node:",
        ),
        (
            approved(
                signer=SERVING,
                usages=SERVING_USAGES,
                pem=request_pem(NODE, NODES, dns_names=["n1"], email_addresses=["a@b"]),
            ),
            "Email subjectAltNames are not allowed",
        ),
        (
            approved(
                signer=SERVING, usages=SERVING_USAGES, pem=request_pem(NODE, NODES, dns_names=["n1"], uris=["a:b"])
            ),
            "URI subjectAltNames are not allowed",
        ),
        (
            approved(signer=CLIENT, usages=("client auth", "server auth")),
            "invalid usage for client certificate: server auth",
        ),
        (
            approved(signer=CLIENT, usages=("digital signature",)),
            "missing required usage for client certificate: client auth",
        ),
    ],
)
def test_invalid_request_gets_condition_failed(request_: Object, why: str) -> None:
    status = written(run(request_))
    assert "certificate" not in status
    assert status["conditions"] == [
        APPROVED,
        {
            "type": "Failed",
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": why,
            "lastUpdateTime": "2027-01-15T08:00:00Z",
        },
    ]


@pytest.mark.parametrize(
    "request_",
    [
        csr(),
        csr(conditions=[condition("Denied")]),
        csr(conditions=[APPROVED, condition("Denied")]),
        csr(conditions=[APPROVED, condition("Failed")]),
        csr(conditions=[APPROVED, condition("Failed", status="")]),
        csr(conditions=[APPROVED], certificate=b"there"),
        approved(signer="example.com/other"),
        approved(signer="kubernetes.io/other"),
    ],
)
def test_unapproved_issued_or_foreign_request_is_ignored(request_: Object) -> None:
    assert run(request_).commands == []


def test_signer_without_keys_signs_nothing() -> None:
    assert run(approved(), signers=(SERVING,)).commands == []


HOUR = 3600.0


@pytest.mark.parametrize(
    ("requested", "most", "seconds"),
    [
        (None, HOUR, HOUR),
        (1800, HOUR, 1800.0),
        (3 * 3600, HOUR, HOUR),
        (-60, HOUR, 600.0),
        (300, HOUR, 600.0),
        (600, HOUR, 600.0),
        (600, 300.0, 300.0),
    ],
)
def test_lifetime_is_limited_by_the_maximum_and_ten_minutes(requested: int | None, most: float, seconds: float) -> None:
    assert lifetime(requested, most=most) == seconds


def test_certificate_is_valid_for_the_requested_time() -> None:
    made = certificate_of(written(run(approved(expirationSeconds=7200))))
    assert made.not_valid_before_utc.timestamp() == NOW - 300
    assert made.not_valid_after_utc.timestamp() == NOW + 7200
    longest = certificate_of(written(run(approved())))
    assert longest.not_valid_after_utc.timestamp() == NOW + 10 * DAY  # of the CA's certificate


@pytest.mark.parametrize(
    ("request_", "pair", "why"),
    [
        (
            approved(),
            authority_pair("old", begin=NOW - 2 * DAY, end=NOW - DAY),
            "error auto signing csr: the signer has expired: NotAfter=2027-01-14 08:00:00 +0000 UTC",
        ),
        (
            approved(signer=LEGACY, usages=("bad", "client auth")),
            PAIR,
            'error auto signing csr: unrecognized usage values: ["bad"]',
        ),
        (
            approved(),
            PemKeyPair(b"", b""),
            'error auto signing csr: error reading CA cert file "certificate": missing content',
        ),
        (approved(pem=b"x"), PAIR, 'unable to parse csr "r": PEM block type must be CERTIFICATE REQUEST'),
    ],
)
def test_request_that_cannot_be_signed_is_retried(request_: Object, pair: PemKeyPair, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        run(request_, pair=pair)
    assert str(refused.value).startswith(why)
    assert isinstance(refused.value, SigningError) or "parse" in why


def test_conflict_discards_the_certificate() -> None:
    def refusing(bench: Bench) -> Any:
        def answer(command: Any) -> Outcome:
            return Conflict("newer") if isinstance(command, Update) else bench.accept(command)

        return answer

    with pytest.raises(CommandError):
        run(approved(), answer=refusing)


# --- CA files of each signer


@pytest.mark.parametrize(
    ("flags", "files"),
    [
        ((), {}),
        (("cert-file=c",), {}),
        (("key-file=k",), {}),
        (("cert-file=c", "key-file=k"), dict.fromkeys(RULES, Files("c", "k"))),
        (
            ("kubelet-serving-cert-file=c", "kubelet-serving-key-file=k"),
            {SERVING: Files("c", "k")},
        ),
        (
            (
                "kubelet-client-cert-file=a",
                "kubelet-client-key-file=b",
                "kube-apiserver-client-cert-file=c",
                "kube-apiserver-client-key-file=d",
                "legacy-unknown-cert-file=e",
                "legacy-unknown-key-file=f",
            ),
            {KUBELET_CLIENT: Files("a", "b"), CLIENT: Files("c", "d"), LEGACY: Files("e", "f")},
        ),
    ],
)
def test_files_of_each_signer_follow_the_flags(flags: tuple[str, ...], files: dict[str, Files]) -> None:
    options = read_options([f"--cluster-signing-{flag}" for flag in flags])
    assert dict(files_of_signers(options)) == files
    assert SPEC.enabled_if(options) == bool(files)


def test_unusable_files_are_reported_before_the_start(tmp_path: Path) -> None:
    flags = [f"--cluster-signing-{part}-file={tmp_path / part}" for part in ("cert", "key")]
    [check] = SPEC.start_checks
    missing = f"open {tmp_path / 'cert'}: no such file or directory"
    assert list(check(read_options(flags))) == [
        f'failed to init {signer} certificate controller: error reading CA cert file "{tmp_path / "cert"}": {missing}'
        for signer in RULES
    ]
    (tmp_path / "cert").write_bytes(PAIR.certificate)
    (tmp_path / "key").write_bytes(PAIR.key)
    assert list(check(read_options(flags))) == []
    assert list(check(read_options([]))) == []


# --- in a cluster


def files(name: str = "world", pair: PemKeyPair = PAIR) -> tuple[AuthorityFiles, list[str]]:
    made = AuthorityFiles(name, pair)
    return made, [f"--cluster-signing-cert-file={made.certificate}", f"--cluster-signing-key-file={made.key}"]


def issued(cluster: SimulatedCluster, name: str = "r") -> x509.Certificate | None:
    request = cluster.get(CERTIFICATE_SIGNING_REQUESTS, name)
    assert request is not None
    return certificate_of(request["status"]) if "certificate" in request["status"] else None


def test_replaced_authority_signs_the_next_certificate(cluster: SimulatedCluster) -> None:
    begin = cluster.clock.now()
    first, second = (authority_pair(name, begin=begin - DAY, end=begin + DAY) for name in ("first", "second"))
    disk, flags = files("rotated", first)
    cluster.manager(controllers=(SPEC, approver.SPEC), options=read_options(flags))
    cluster.create(CERTIFICATE_SIGNING_REQUESTS, {**csr(), "status": {}})
    assert cluster.run_until(lambda: issued(cluster) is not None, within=30)
    disk.write(second)
    cluster.create(CERTIFICATE_SIGNING_REQUESTS, {**csr("s"), "status": {}})
    assert cluster.run_until(lambda: issued(cluster, "s") is not None, within=30)
    made = [issued(cluster, name) for name in ("r", "s")]
    issuers = [certificate.issuer.rfc4514_string() for certificate in made if certificate is not None]
    assert issuers == ["CN=first", "CN=second"]


def test_pending_request_is_signed_once_the_keys_are_valid(cluster: SimulatedCluster) -> None:
    begin = cluster.clock.now()
    old, good = (authority_pair("same", begin=begin - 2 * DAY, end=begin + end) for end in (-DAY, DAY))
    disk, flags = files("mended", old)
    cluster.manager(controllers=(SPEC, approver.SPEC), options=read_options(flags))
    cluster.create(CERTIFICATE_SIGNING_REQUESTS, {**csr(), "status": {}})
    cluster.run_for(20)
    assert issued(cluster) is None
    disk.write(good)
    assert cluster.run_until(lambda: issued(cluster) is not None, within=60)
