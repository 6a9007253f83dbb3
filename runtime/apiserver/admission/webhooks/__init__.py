"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook: external servers change and validate objects.

Source: apiserver pkg/admission/plugin/webhook (v1.36).
"""
