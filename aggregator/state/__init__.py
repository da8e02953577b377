"""The state of a hub lies in topics at central: ledger, control, requests, dead letters, edge status and telemetry."""
