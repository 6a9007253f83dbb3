"""Version of the installed package."""

from kcm.runtime.process.distributions import installed_version

VERSION = installed_version("kcm")
