"""Run the command run-kcm by `python -m kcm`, for environments whose scripts are not on the path."""

import sys

from kcm.actors.command.__main__ import main
from kcm.runtime.process.standard_streams import open_closed_streams

if __name__ == "__main__":
    open_closed_streams()
    sys.exit(main())
