"""Benchmarks: `bin/run-bench [NAME …]`. They print a table, and JSON for machines; nothing here passes or fails."""
