"""ControllerSpec of the signing controller.

Source: kubernetes v1.36 cmd/kube-controller-manager/app/certificates.go. Difference: if CA files are invalid, the
process exits at its start, even if it is not the leader. Upstream exits when it becomes the leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kcm.actors.controllers.certificates.shared.queue import WORKERS, certificate_queue
from kcm.actors.controllers.certificates.signing.options import SigningOptions, check_files, files_of_signers
from kcm.actors.controllers.certificates.signing.reconciler import Signer
from kcm.actors.controllers.certificates.signing.rules import RULES
from kcm.actors.options import Options
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec
from kcm.runtime.x509.key_files import KeyFiles

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

OpenKeys = Callable[[str, str, "FilteringBoundLogger"], KeyFiles]  # takes the paths of a certificate and its key


def open_keys(certificate: str, key: str, log: FilteringBoundLogger) -> KeyFiles:
    return KeyFiles(certificate, key, log=log)


def is_enabled(options: Options) -> bool:
    return bool(files_of_signers(options))


def check_authorities(options: Options) -> Iterator[str]:
    """Read the CA files of each enabled signer, and yield an error message for each signer whose files are invalid."""
    for signer, files in files_of_signers(options).items():
        try:
            KeyFiles(files.certificate, files.key).authority()
        except ValueError as err:
            yield f"failed to init {signer} certificate controller: {err}"


def specification(open_keys: OpenKeys) -> ControllerSpec:
    """Return the ControllerSpec of the signing controller.

    open_keys: function that opens the CA files of a signer. Tests and the simulation pass their own.
    """
    return ControllerSpec(
        name="certificatesigningrequest-signing-controller",
        aliases=("csrsigning",),
        never_blocks=True,
        client="certificate-controller",
        queues=(certificate_queue(lambda options: WORKERS * max(1, len(files_of_signers(options)))),),
        build=partial(_build, open_keys),
        enabled_if=is_enabled,
        needs="--cluster-signing-cert-file and --cluster-signing-key-file, or those of a signer",
        options=SigningOptions,
        checks=(check_files,),
        start_checks=(check_authorities,),
    )


def _build(open_keys: OpenKeys, context: ControllerContext) -> Signer:
    files = files_of_signers(context.options)
    for signer in RULES:
        if signer not in files:
            because = "specific files were specified for other signers and not this one"
            context.log.info(f"Skipping CSR signer controller because {because}", signer=signer)
    # Signers with the same files share a KeyFiles, so that a replaced file is read once for all of them.
    opened = {paths: open_keys(paths.certificate, paths.key, context.log) for paths in dict.fromkeys(files.values())}
    keys: Mapping[str, KeyFiles] = {signer: opened[paths] for signer, paths in files.items()}
    return Signer(
        tables=context.tables,
        clock=context.clock,
        keys=keys,
        max_lifetime=context.options[SigningOptions].duration,
    )


SPEC = specification(open_keys)
