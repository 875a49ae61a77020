"""Injects faults, proves that they happened, lifts them, and checks that the target recovers. One small class for each fault.

A fault affects only its target. The modules are the families of `e2e.chaos.experiments`; `fault` has the shape that all share.
"""

from e2e.chaos.faults.fault import Fault, LiftError, Proof, Reversible, Scene

__all__ = ["Fault", "LiftError", "Proof", "Reversible", "Scene"]
