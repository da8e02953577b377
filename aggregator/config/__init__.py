"""Configuration: from YAML and environment to a frozen model, with every fault at once."""
