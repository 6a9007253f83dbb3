"""python -m actors.command"""

import sys

from actors.command.run_kcm import main
from runtime.process.standard_streams import open_closed_streams

if __name__ == "__main__":
    open_closed_streams()
    sys.exit(main())
