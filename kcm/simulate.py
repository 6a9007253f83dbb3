"""Run `python -m kcm.simulate`: seeded runs with faults, and replays of single runs. `--help` lists the arguments."""

import sys

from kcm.actors.simulation.campaign.command import main
from kcm.runtime.process.standard_streams import printing

if __name__ == "__main__":
    sys.exit(printing(main))
