"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: CEL expressions that validate and change objects.

CEL is imported only when a request must be checked against a stored policy.

Source: apiserver pkg/admission/plugin/policy (v1.36).
"""
