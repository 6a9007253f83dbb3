"""Discovery of API resources.

documents.py   parsers of discovery documents
survey.py      one round of requests, and its result
"""
