"""Controllers of workloads. The code that they share is in controllers/shared."""
