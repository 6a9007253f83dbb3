"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook: people's own servers change and judge what is written.

Source: apiserver pkg/admission/plugin/webhook (v1.36).
"""
