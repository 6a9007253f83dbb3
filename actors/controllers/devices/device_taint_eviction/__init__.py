"""Device taint eviction controller: deletes pods that use tainted devices.

A device is tainted by its driver, in a ResourceSlice, or by an administrator, with a DeviceTaintRule. A pod that uses
the device through a ResourceClaim is deleted if the taint has the effect NoExecute and the request for the device does
not tolerate it, or when the toleration's seconds have passed since the taint's timeAdded.

Input: pods with claims, ResourceClaims, ResourceSlices; DeviceTaintRules with the feature gate DRADeviceTaintRules.
Output: the condition DisruptionTarget, then the deletion of the pod; events on the pod; the condition
EvictionInProgress of DeviceTaintRules. Key: a pod or a rule.

Source: kubernetes v1.36 pkg/controller/devicetainteviction.
"""

from kcm.actors.controllers.devices.device_taint_eviction.spec import SPEC

__all__ = ["SPEC"]
