"""Translates MirrorMaker's configuration into a configuration of the hub, and takes over its offsets."""
