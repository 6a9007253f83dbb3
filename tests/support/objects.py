"""The public builders of objects, under the name by which tests of kcm itself have them."""

from kcm.actors.simulation.objects import *  # noqa: F403
