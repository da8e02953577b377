"""Reads the configuration: YAML and environment become a frozen model, and every fault is reported at once."""
