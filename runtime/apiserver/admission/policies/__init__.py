"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: CEL expressions that validate and change objects.

Source: apiserver pkg/admission/plugin/policy (v1.36). The language is imported when a policy is stored and a request
comes that it may be about.
"""
