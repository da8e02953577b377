"""The operators' parameters, as a policy writes them: one closed, frozen, hashable model per operator.

Invariant: whatever a model accepts, its operator can be built from; a fault names the parameter and never its value.
"""
