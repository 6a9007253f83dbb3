"""python -m actors.command"""

import sys

from actors.command.run_kcm import main

if __name__ == "__main__":
    sys.exit(main())
