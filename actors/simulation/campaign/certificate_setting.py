"""The setting of seeded runs about certificates: who asks for them, who decides, and who signs."""

from __future__ import annotations

from kcm.actors.controllers.certificates import approving, pod_request_cleaner, request_cleaner, signing
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.flags import given
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.trials.certificates.keys import authority_files, reset
from kcm.actors.simulation.trials.certificates.requesters import authorize

OF_CERTIFICATES = (signing.SPEC, approving.SPEC, request_cleaner.SPEC)


def options_of(_scenario: int) -> Options:
    files = authority_files()
    return given(f"--cluster-signing-cert-file={files.certificate}", f"--cluster-signing-key-file={files.key}")


def prepare(cluster: SimulatedCluster) -> None:
    cluster.authorize = authorize
    reset()


CERTIFICATES_TOO = Setting(
    name="certificates", controllers=OF_CERTIFICATES, options=options_of, prepare=prepare, calls=True
)
# By itself: a request lives for a quarter of an hour, and all others would have to wait for that.
POD_CERTIFICATES_TOO = Setting(
    name="pod-certificates",
    controllers=(pod_request_cleaner.SPEC,),
    options=lambda _scenario: given("--feature-gates=PodCertificateRequest=true"),
    settled=2000.0,
)
