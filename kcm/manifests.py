"""Declarations for generated manifests: custom resources of an operator, and permissions of its controllers.

A name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from kcm._lazy import lazily

if TYPE_CHECKING:
    from kcm.actors.command.generation.manifests import GenerationError, custom_resource_definitions
    from kcm.actors.reconciliation.definitions import (
        CelRule,
        Definition,
        DefinitionFile,
        PrinterColumn,
        ScaleSubresource,
        cel,
        list_map,
    )
    from kcm.actors.reconciliation.watches import Permission
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "cel": "kcm.actors.reconciliation.definitions:cel",
            "PrinterColumn": "kcm.actors.reconciliation.definitions:PrinterColumn",
            "custom_resource_definitions": "kcm.actors.command.generation.manifests:custom_resource_definitions",
            "Definition": "kcm.actors.reconciliation.definitions:Definition",
            "DefinitionFile": "kcm.actors.reconciliation.definitions:DefinitionFile",
            "GenerationError": "kcm.actors.command.generation.manifests:GenerationError",
            "list_map": "kcm.actors.reconciliation.definitions:list_map",
            "Permission": "kcm.actors.reconciliation.watches:Permission",
            "CelRule": "kcm.actors.reconciliation.definitions:CelRule",
            "ScaleSubresource": "kcm.actors.reconciliation.definitions:ScaleSubresource",
        },
    )

__all__ = [
    "CelRule",
    "Definition",
    "DefinitionFile",
    "GenerationError",
    "Permission",
    "PrinterColumn",
    "ScaleSubresource",
    "cel",
    "custom_resource_definitions",
    "list_map",
]
