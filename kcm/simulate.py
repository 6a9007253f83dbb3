"""`python -m kcm.simulate`: seeded runs with faults, and the replay of one. `--help` lists the arguments."""

import sys

from actors.simulation.campaign.command import main
from runtime.process.standard_streams import printing

if __name__ == "__main__":
    sys.exit(printing(main))
