"""Lookup of cloud providers: the fake one, and those of installed packages.

A package registers a callable that takes the content of --cloud-config and returns a CloudProvider:

    [options.entry_points]
    kcm.cloud_providers =
        acme = acme_kcm:provider
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from kcm.runtime.cloud.provider import CloudProvider

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "kcm.cloud_providers"
NONE, EXTERNAL, FAKE = "", "external", "fake"
FAKE_CLOUD = "kcm.runtime.cloud.fake:FakeCloud"
ProviderFactory = Callable[[str], CloudProvider]


class CloudError(Exception):
    """The provider cannot be loaded. The text is one line for the operator."""


def has_provider(name: str) -> bool:
    """Report whether controllers call a cloud. With "external" another program does.

    name: value of --cloud-provider.
    """
    return name not in (NONE, EXTERNAL)


def is_known(name: str) -> bool:
    """Report whether a value of --cloud-provider is known. Searches installed packages only if necessary."""
    return name in (NONE, EXTERNAL, FAKE) or bool(_entry_points(name))


def load_provider(name: str, *, config_file: str) -> CloudProvider | None:
    """Load a provider; None if controllers call no cloud. config_file: --cloud-config, "" for none.

    Raises CloudError.
    """
    if not has_provider(name):
        return None
    if name == FAKE:
        fake: Callable[[], CloudProvider] = resolve_name(FAKE_CLOUD)  # loaded if it is used, like the others
        return fake()
    found = _entry_points(name)
    if not found:
        raise CloudError(f"no installed package has a cloud provider {name!r}")
    try:
        config = Path(config_file).read_text() if config_file else ""
        make: ProviderFactory = next(iter(found)).load()
        return make(config)
    except Exception as err:  # code of another package may raise anything
        raise CloudError(f"cloud provider {name!r} could not be initialized: {err}") from err


def _entry_points(name: str) -> EntryPoints:
    from importlib.metadata import entry_points  # heavy

    return entry_points(group=GROUP, name=name)
