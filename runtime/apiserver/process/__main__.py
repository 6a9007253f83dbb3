"""Entry point of the embedded API server's process: `python -m kcm.runtime.apiserver.process`."""

import gc
import sys

gc.disable()  # imported modules and loaded objects are never garbage; `serve` enables the collector again

from kcm.runtime.apiserver.process.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
