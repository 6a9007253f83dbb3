"""API types: merging, validation, OpenAPI and protobuf.

api_types.json      the facts, generated (generate/); api_types.py reads them
scalars.py          checks of single values; kind_checks.py: of objects of built-in kinds
protobuf.py         request bodies in Kubernetes' protobuf encoding, made JSON; protobuf_encoding.py: the way back
field_validation.py unknown and duplicate fields
merge_schemas.py    how lists merge; strategic_merge.py, patches.py: patches applied
openapi.py          the served OpenAPI documents; openapi_schemas.py: their schemas; descriptions.py: their texts
"""
