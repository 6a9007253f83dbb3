"""Options of one controller, declared beside its reconciler.

    class JobOptions(ControllerOptions, frozen=True, kw_only=True):
        configz_block = "JobController"

        concurrent_syncs: int = flag(
            5, "Jobs synced at once.", name="concurrent-job-syncs", config="ConcurrentJobSyncs"
        )

A spec names the class (`options=JobOptions`); `options[JobOptions]` is then an instance with the values of the command
line. Sections of --help, blocks of /configz and checks are in the order of these blocks, as upstream's are.
"""

from __future__ import annotations

from typing import ClassVar

from kcm.runtime.flags.declaration import FlagStruct


class ControllerOptions(FlagStruct, frozen=True, kw_only=True):
    """Base of the options of a controller, whose fields are all declared with flag().

    configz_block: block of /configz that contains the flags; also determines the order of their section in --help.
    """

    configz_block: ClassVar[str] = ""
