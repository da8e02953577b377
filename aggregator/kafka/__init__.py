"""Kafka: the only importer of the client library; clients, readers, transactions, topics."""
