"""Cloud providers: their interface, how they are found, and calls to them."""
