"""Functions of the language, of its extensions, and of Kubernetes; one file per library."""
