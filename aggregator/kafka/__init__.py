"""This package is the only importer of the Kafka client library: clients, readers, transactions and topics."""
