"""Benchmarks: `bin/run-bench [NAME …]`. They print a table or write JSON; no benchmark passes or fails."""
