"""What several kinds have in common: defaults and validation of pods and metadata, names, selectors, cells."""
