"""The public builders of objects, for tests of kcm itself."""

from kcm.actors.simulation.objects import *  # noqa: F403
