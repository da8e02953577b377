"""This package uses librdkafka's C interface for the two loops over all records: whole polls in, whole batches out."""
