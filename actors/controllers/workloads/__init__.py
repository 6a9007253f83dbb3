"""Controllers of workloads, and the vocabulary they share: claiming, pods from templates, deletion orders, status."""
