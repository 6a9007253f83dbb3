"""Mutants of the controllers of certificates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from unittest.mock import patch

from kcm.actors.controllers.certificates import request_cleaner
from kcm.actors.controllers.certificates.approver import Approver
from kcm.actors.controllers.certificates.request_cleaner import reason_to_clean
from kcm.actors.controllers.certificates.shared.requests import APPROVED, has_condition, is_issued
from kcm.actors.controllers.certificates.signing.reconciler import Signer
from kcm.actors.reconciliation import Step
from kcm.actors.simulation.campaign.domain_settings import CERTIFICATES_SETTING
from kcm.protocols.objects import Object
from kcm.runtime.x509.authority import Authority
from kcm.runtime.x509.key_files import KeyFiles
from tests.faults.mutants.mutant import Mutant


def whoever_asks_is_approved() -> Any:
    """Requests are approved without authorization of their users."""

    def is_allowed(self: Approver, request: Object, subresource: str) -> Step[bool]:
        yield from ()
        return True

    return patch.object(Approver, "_is_allowed", is_allowed)


@contextmanager
def keys_are_read_once() -> Iterator[None]:
    """The signer reads the files of the authority only at its start."""
    begin, read = KeyFiles.__init__, KeyFiles.authority
    first: dict[KeyFiles, Authority] = {}

    def and_read(self: KeyFiles, *paths: str, **more: Any) -> None:
        begin(self, *paths, **more)
        with suppress(ValueError):  # halfway through a replacement
            first[self] = read(self)

    def authority(self: KeyFiles) -> Authority:
        return first.get(self) or read(self)

    with patch.object(KeyFiles, "__init__", and_read), patch.object(KeyFiles, "authority", authority):
        yield


def refused_requests_are_left_as_they_are() -> Any:
    """Requests that a signer refuses are ignored, without a condition."""
    write = Signer._write

    def only_certificates(self: Signer, request: Object) -> Step[None]:
        if is_issued(request):
            yield from write(self, request)

    return patch.object(Signer, "_write", only_certificates)


def what_is_not_issued_stays() -> Any:
    """The cleaner never deletes approved requests that no signer signs."""

    def reason(request: Object, **known: Any) -> str:
        waits = has_condition(request, APPROVED) and not is_issued(request)
        return "" if waits else reason_to_clean(request, **known)

    return patch.object(request_cleaner, "reason_to_clean", reason)


_mutant = partial(Mutant, setting=CERTIFICATES_SETTING)
CERTIFICATES = (
    _mutant(
        name="whoever asks for a kubelet's certificate is approved",
        source="kubernetes/kubernetes#45030",
        mutation=whoever_asks_is_approved,
    ),
    _mutant(
        name="an authority's keys are read once",
        source="kubernetes/kubernetes#86816",
        mutation=keys_are_read_once,
    ),
    _mutant(
        name="a request that is never signed does not say so",
        source="kubernetes/kubernetes#90191",
        mutation=refused_requests_are_left_as_they_are,
    ),
    _mutant(
        name="requests that are approved and not issued are not cleaned up",
        source="kubernetes/kubernetes#132947",
        mutation=what_is_not_issued_stays,
    ),
)
