"""Controllers of whatever objects there are, custom ones included."""
