"""`python -m runtime.apiserver.process`."""

import sys

from runtime.apiserver.process.main import main

if __name__ == "__main__":
    sys.exit(main())
