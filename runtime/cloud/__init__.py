"""What a cloud has to offer to the controllers that need one, and how it is found and called."""
