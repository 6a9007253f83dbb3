"""API types: merging, validation and protobuf.

api_types.json      generated facts about each field (generate/); api_types.py reads them
scalars.py          checks of single values; kind_checks.py checks objects of built-in kinds
protobuf.py         decoding of Kubernetes' protobuf into JSON; protobuf_encoder.py encodes
field_validation.py unknown and duplicate fields
merge_schemas.py    merge strategies of lists; strategic_merge.py and patches.py apply patches

The served OpenAPI documents are in presentation/openapi/.
"""
