"""This module sets the size of the largest record that the hub's own producer sends, whatever a cluster allows.

Invariant: a value only. No client is imported here.
"""

MAX_RECORD_BYTES = 64 * 1024 * 1024
