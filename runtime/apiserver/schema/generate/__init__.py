"""Generators of api_types.json and similar files, which describe Kubernetes' API types.

Usage: `python -m kcm.runtime.apiserver.schema.generate --help`.
"""
