"""What the hub keeps in Kafka: ledger, control, requests, dead letters, edge status, telemetry, and their names."""
