"""Version of kcm, and the Kubernetes version that it implements."""

from __future__ import annotations

import platform
from typing import NamedTuple

from kcm.runtime.process.distributions import installed_version

KUBERNETES = "1.36.2"
_GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class Version(NamedTuple):  # not a Struct: --version imports no msgspec
    """Version of a program.

    kubernetes: the release that it implements.
    emulated: the release that it emulates, such as "1.37"; "" for `kubernetes`.
    """

    kubernetes: str
    kcm: str
    emulated: str = ""

    @property
    def major(self) -> str:
        return self.kubernetes.partition(".")[0]

    @property
    def minor(self) -> str:
        return self.kubernetes.split(".")[1]

    @property
    def emulated_minor(self) -> str:
        return (self.emulated or self.kubernetes).split(".")[1]

    @property
    def git_version(self) -> str:
        """Return the version in the format of Kubernetes components: v1.36.2+kcm.0.1.0."""
        return f"v{self.kubernetes}+kcm.{self.kcm}"

    @property
    def platform(self) -> str:
        """Return the platform with Go's names: linux/amd64."""
        machine = platform.machine()
        return f"{platform.system().lower()}/{_GO_MACHINES.get(machine, machine)}"

    def describe(self, form: str) -> str:
        """Return the output of --version. form: "raw" for all fields; otherwise one line."""
        if form != "raw":
            return f"Kubernetes {self.git_version}"
        return (
            f"version.Info{{Major:{quoted(self.major)}, Minor:{quoted(self.minor)}, "
            f"GitVersion:{quoted(self.git_version)}, Compiler:{quoted(platform.python_implementation())}, "
            f"PythonVersion:{quoted(platform.python_version())}, "
            f"Platform:{quoted(f'{platform.system().lower()}/{platform.machine()}')}}}"
        )


def quoted(text: str) -> str:
    return f'"{text}"'


def this_version(kubernetes: str = KUBERNETES) -> Version:
    """Return the version of the running program. kcm is "0+unknown" if it is not installed.

    kubernetes: the release to report.
    """
    own = installed_version("kcm") or "0+unknown"
    return Version(kubernetes=kubernetes.removeprefix("v"), kcm=own)
