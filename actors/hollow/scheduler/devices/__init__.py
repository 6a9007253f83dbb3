"""Devices of pods: the scheduler's allocation of ResourceClaims, and its inventory of ResourceSlices."""
