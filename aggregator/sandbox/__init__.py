"""The sandbox: runs real Kafka clusters on loopback, with sample traffic."""
