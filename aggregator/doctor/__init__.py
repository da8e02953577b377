"""What is wrong with the clusters, the registries and the machine of a configuration, and what mends it."""
