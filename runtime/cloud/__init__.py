"""Cloud providers: their interface, loading, and calls to them."""
