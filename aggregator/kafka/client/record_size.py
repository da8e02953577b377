"""How large a record may be that the hub sends: a bound of its own producer, whatever a cluster allows.

Invariant: a value alone; no client is imported here.
"""

RECORD_BYTES_MOST = 64 * 1024 * 1024
