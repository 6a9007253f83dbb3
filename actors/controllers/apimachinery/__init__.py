"""Controllers that handle objects of all resources: garbage collector, namespaces and resource quotas."""
