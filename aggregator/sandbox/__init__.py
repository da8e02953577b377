"""The sandbox: real Kafka clusters on loopback, and sample traffic."""
