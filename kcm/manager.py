"""The controller manager: its transport, options, lease, pages, and the built-in and installed controllers.

A name is imported when it is first used: serving pages needs libraries that the manager itself does not need.
"""

from typing import TYPE_CHECKING

from kcm._lazy import lazily

if TYPE_CHECKING:
    from kcm.actors.app.arguments import read_options
    from kcm.actors.app.connection import api_transport
    from kcm.actors.app.installed import installed_controllers
    from kcm.actors.app.system import ControllerSystem
    from kcm.actors.command.main import main
    from kcm.actors.command.program_pages import Pages, serve
    from kcm.actors.controllers.built_in import BUILT_IN
    from kcm.actors.engine.elector import Candidacy, Election, Migration
    from kcm.actors.options import InvalidOptionsError, Options
    from kcm.runtime.client.api import Request, Response, Transport
    from kcm.runtime.client.config import ConfigError
    from kcm.runtime.flags.declaration import FlagError
    from kcm.runtime.serving.server import ServingError
    from kcm.runtime.serving.tls_names import TlsError

    InvalidOptions = InvalidOptionsError  # its name in kcm 0.2.0 and before
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "api_transport": "kcm.actors.app.connection:api_transport",
            "BUILT_IN": "kcm.actors.controllers.built_in:BUILT_IN",
            "Candidacy": "kcm.actors.engine.elector:Candidacy",
            "ConfigError": "kcm.runtime.client.config:ConfigError",
            "ControllerSystem": "kcm.actors.app.system:ControllerSystem",
            "Election": "kcm.actors.engine.elector:Election",
            "FlagError": "kcm.runtime.flags.declaration:FlagError",
            "InvalidOptions": "kcm.actors.options:InvalidOptionsError",
            "installed_controllers": "kcm.actors.app.installed:installed_controllers",
            "InvalidOptionsError": "kcm.actors.options:InvalidOptionsError",
            "Migration": "kcm.actors.engine.elector:Migration",
            "main": "kcm.actors.command.main:main",
            "Options": "kcm.actors.options:Options",
            "Pages": "kcm.actors.command.program_pages:Pages",
            "read_options": "kcm.actors.app.arguments:read_options",
            "Request": "kcm.runtime.client.api:Request",
            "Response": "kcm.runtime.client.api:Response",
            "serve": "kcm.actors.command.program_pages:serve",
            "ServingError": "kcm.runtime.serving.server:ServingError",
            "TlsError": "kcm.runtime.serving.tls_names:TlsError",
            "Transport": "kcm.runtime.client.api:Transport",
        },
    )

__all__ = [
    "BUILT_IN",
    "Candidacy",
    "ConfigError",
    "ControllerSystem",
    "Election",
    "FlagError",
    "InvalidOptionsError",
    "Migration",
    "Options",
    "Pages",
    "Request",
    "Response",
    "ServingError",
    "TlsError",
    "Transport",
    "api_transport",
    "installed_controllers",
    "main",
    "read_options",
    "serve",
]
