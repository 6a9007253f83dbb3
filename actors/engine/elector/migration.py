"""Leader migration: some controllers run under a second Lease, which other controller managers compete for as well.

Source: kubernetes v1.36 controller-manager/pkg/leadermigration/{filter,migrator}.go, config/default.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from msgspec import Struct

ANY_COMPONENT = "*"


class Ownership(Enum):
    """Lease under which a controller manager runs a controller."""

    MAIN = "main"  # the controller is not migrated
    MIGRATED = "migrated"  # the migration Lease
    UNOWNED = "unowned"  # another controller manager runs it


class Migration(Struct, frozen=True, kw_only=True):
    """Controllers that are migrated between controller managers."""

    lease: str  # name of the migration Lease; its namespace is that of the main Lease
    components: Mapping[str, str]  # controller name → the component that runs it, or "*" for any component

    def ownership(self, controller: str, *, component: str) -> Ownership:
        """Return the Lease under which this component runs a controller."""
        chosen = self.components.get(controller)
        if chosen is None:
            return Ownership.MAIN
        return Ownership.MIGRATED if chosen in (component, ANY_COMPONENT) else Ownership.UNOWNED


# Without --leader-migration-config. Today's canonical names of the first two controllers differ, as upstream.
DEFAULT_MIGRATION = Migration(
    lease="cloud-provider-extraction-migration",
    components=MappingProxyType(
        {
            "route-controller": ANY_COMPONENT,
            "service-controller": ANY_COMPONENT,
            "cloud-node-lifecycle-controller": ANY_COMPONENT,
        }
    ),
)
