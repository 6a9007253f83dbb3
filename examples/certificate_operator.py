"""Certificate operator: a Certificate has a Secret with a self-signed certificate for its names.

Its webhooks set defaults, let no two Certificates have a name in common, and convert between two versions.

kubectl apply -f examples/certificate-crd.yml
python examples/certificate_operator.py --kubeconfig ~/.kube/config
run-kcm manifests --name certificate-operator examples/certificate_operator.py:certificate_spec
"""

import base64
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kcm import (
    ControllerSpec,
    Key,
    Object,
    Queue,
    Reconciliation,
    RequeueAfter,
    Resource,
    Watch,
    convert,
    main,
    mutate,
    validate,
)
from kcm.manifests import DefinitionFile, Permission
from kcm.objects import key_of, name_of, namespace_of, own
from kcm.specs import ControllerContext, its_controller, itself
from kcm.steps import call, ensure, patch_status
from kcm.webhooks import AdmissionRequest, Denied

CERTIFICATES, BETA = (
    Resource(group="example.com", version=version, plural="certificates", kind="Certificate")
    for version in ("v1", "v1beta1")
)
SECRETS = Resource(version="v1", plural="secrets", kind="Secret")
EXPIRY = "example.com/expires"
RENEW_BEFORE = 5 * 86_400.0  # seconds
Issue = Callable[[list[str], int, float], dict[str, str]]


def issue(names: list[str], days: int, now: float) -> dict[str, str]:
    """Return a self-signed certificate and its key, in PEM."""
    key, begin = ec.generate_private_key(ec.SECP256R1()), datetime.fromtimestamp(now, UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {"tls.crt": certificate.public_bytes(Encoding.PEM).decode(), "tls.key": private.decode()}


def complete(name: str, spec: Object) -> Object:
    """Return the spec with its defaults, also of an object that was created before the webhooks were served."""
    return {"days": 90, "secretName": f"{name}-tls", **spec}


class CertificateReconciler:
    def __init__(self, context: ControllerContext, issue: Issue) -> None:
        self._certificates, self._secrets = context.tables[CERTIFICATES], context.tables[SECRETS]
        self._clock, self._issue = context.clock, issue

    def reconcile(self, key: Key) -> Reconciliation:
        certificate = self._certificates.get(key)
        if certificate is None:
            return None
        spec, now = complete(name_of(certificate), certificate["spec"]), self._clock.now()
        wanted = f"{','.join(spec['names'])} {spec['days']}"
        secret = self._secrets.get(f"{namespace_of(certificate)}/{spec['secretName']}")
        notes = ((secret or {}).get("metadata") or {}).get("annotations") or {}
        names, _, expires = notes.get(EXPIRY, "").rpartition("|")
        if names != wanted or now >= float(expires) - RENEW_BEFORE:
            pair = yield from call(self._issue, spec["names"], spec["days"], now)
            expires = str(now + spec["days"] * 86_400)
            meta = {"namespace": namespace_of(certificate), "name": spec["secretName"]}
            body = {
                "metadata": {**meta, "annotations": {EXPIRY: f"{wanted}|{expires}"}},
                "type": "kubernetes.io/tls",
                "data": {name: base64.b64encode(pem.encode()).decode() for name, pem in pair.items()},
            }
            yield from ensure(self._secrets, own(body, by=certificate, of=CERTIFICATES))
        end = datetime.fromtimestamp(float(expires), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        yield from patch_status(self._certificates, certificate, {"expires": end})
        return RequeueAfter(max(60.0, float(expires) - RENEW_BEFORE - now))


def with_defaults(request: AdmissionRequest[Object]) -> Object:
    request.new["spec"] = complete(request.name or name_of(request.new), request.new["spec"])
    return request.new


def check(request: AdmissionRequest[Object]) -> None:
    """Deny a name that another Certificate has. CEL in the schema could not see the other objects."""
    names, key = request.new["spec"]["names"], key_of(request.new)
    for other in request.tables[CERTIFICATES].objects() if request.tables is not None else ():
        taken = sorted({*names} & {*other["spec"]["names"]})
        if taken and key_of(other) != key:
            raise Denied("the name is taken", fields={"spec.names": f"{taken[0]} belongs to {key_of(other)}"})
    if request.new["spec"].get("days", 0) > 200:
        request.warn("certificates that are valid for more than 200 days are rejected by browsers from 2026 on")


def from_beta(obj: Object) -> Object:
    spec = {name: value for name, value in obj["spec"].items() if name not in ("domain", "moreDomains")}
    names = [obj["spec"].get("domain"), *obj["spec"].get("moreDomains", ())]
    return {**obj, "spec": {**spec, "names": [name for name in names if name]}}


def to_beta(obj: Object) -> Object:
    spec = {name: value for name, value in obj["spec"].items() if name != "names"}
    first, *more = obj["spec"].get("names") or [""]
    return {**obj, "spec": {**spec, "domain": first} | ({"moreDomains": more} if more else {})}


def certificate_spec(issue: Issue = issue) -> ControllerSpec:
    return ControllerSpec(
        name="domain-certificate-controller",
        queues=(Queue(watches=(Watch(CERTIFICATES, to=itself), Watch(SECRETS, to=its_controller(CERTIFICATES)))),),
        build=lambda context: CertificateReconciler(context, issue),
        admission=(mutate(CERTIFICATES, with_defaults), validate(CERTIFICATES, check)),
        conversion=(convert(BETA, CERTIFICATES, from_beta), convert(CERTIFICATES, BETA, to_beta)),
        permissions=(Permission(SECRETS, ("ensure",)), Permission(CERTIFICATES, ("patch",), "status")),
        definitions=(DefinitionFile(CERTIFICATES, Path(__file__).with_name("certificate-crd.yml")),),
    )


if __name__ == "__main__":
    sys.exit(main([certificate_spec()], name="certificate-operator"))
