"""Controllers of certificates: those that approve, sign and clean up what is requested."""
