"""Large clusters on the embedded API server: `bin/run-bench scale`, and growth curves, `bin/run-bench growth`."""
