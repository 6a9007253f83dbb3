"""Options of one controller, declared beside its reconciler.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class JobOptions(ControllerOptions):
        configz_block = "JobController"

        concurrent_syncs: int = flag(
            5, "Jobs synced at once.", name="concurrent-job-syncs", config="ConcurrentJobSyncs"
        )

A spec names the class (`options=JobOptions`); `options[JobOptions]` is then an instance with the values of the command
line. Sections of --help, blocks of /configz and checks are in the order of these blocks, as upstream's are.
"""

from __future__ import annotations

from typing import ClassVar


class ControllerOptions:
    """Base of frozen dataclasses whose fields are all declared with flag().

    configz_block: block of /configz that contains the flags; also determines the order of their section in --help.
    """

    __slots__ = ()
    configz_block: ClassVar[str] = ""
