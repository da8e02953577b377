"""librdkafka by its C interface, for the two loops that every record passes: whole polls in, whole batches out."""
