"""Names of upstream's files for --vmodule."""

from __future__ import annotations

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.options.log_files import LOG_FILES

CLOUD = {"service-lb-controller", "node-route-controller", "cloud-node-lifecycle-controller"}
INFRASTRUCTURE = {"controller-manager", "dispatcher", "elector", "event-recorder", "informer", "kcm"}


def test_every_controller_has_file_names() -> None:
    assert {spec.name for spec in BUILT_IN} - LOG_FILES.keys() == CLOUD
    assert LOG_FILES.keys() - {spec.name for spec in BUILT_IN} == INFRASTRUCTURE


def test_names_of_files_have_no_suffix() -> None:
    assert all(name and "." not in name for names in LOG_FILES.values() for name in names)
