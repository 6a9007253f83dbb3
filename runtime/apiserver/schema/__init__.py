"""API types: type checks, field validation, patches, server-side apply and protobuf, by runtime/schema/api_types.py.

kind_checks.py      type checks of objects; scalars.py checks single values, nesting.py limits the depth
field_validation.py unknown and duplicate fields (fieldValidation=Strict and Warn)
patches.py          merge patches and JSON patches
strategic_merge.py  strategic merge patches; merge_schemas.py contains the merge strategy of each built-in field
merge_types.py      merge behaviour of types in server-side apply, for typed_merge.py and typed_errors.py
field_sets.py       sets of fields as in managedFields; field_differences.py compares two versions of an object
protobuf.py         decoder of Kubernetes' protobuf; protobuf_encoder.py encodes
inner_forms.py      values in the form of kube-apiserver's internal types, for error messages

The served OpenAPI documents are in presentation/openapi/.
"""
