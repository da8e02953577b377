"""Compiles the kernel into this machine's cache: `python -m aggregator.privacy.kernel`, so that no slot has to wait.

Invariant: does nothing else, and nothing at all where the cache holds it already.
"""

import aggregator.privacy.kernel.strip  # noqa: F401 - importing compiles
