"""Types of the built-in API, of which the API server and the tables of controllers make use.

api_types.py        the fields of all built-in types, from api_types.json, which apiserver/schema/generate writes
field_errors.py     name of the malformed field of an object
"""
