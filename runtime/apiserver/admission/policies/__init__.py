"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: expressions judge and change what is written.

Source: apiserver pkg/admission/plugin/policy (v1.36). The language is imported when a policy is stored and a request
comes that it may be about.
"""
