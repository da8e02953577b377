"""This module sets the size of the largest record that the hub's own producer sends, whatever a cluster allows.

Invariant: a value only. No client is imported here.
"""

RECORD_BYTES_MOST = 64 * 1024 * 1024
