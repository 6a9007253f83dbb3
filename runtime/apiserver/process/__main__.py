"""`python -m kcm.runtime.apiserver.process`."""

import gc
import sys

gc.disable()  # what is imported and loaded stays; `serve` freezes it and then collects

from kcm.runtime.apiserver.process.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
