"""Finds what is wrong with the clusters, the registries and the machine of a configuration, and how to mend it."""
