"""What can be done to a resource, one file a verb. Each takes a Call apart and returns the Response."""
