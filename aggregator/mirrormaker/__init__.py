"""What MirrorMaker's configuration says, as a configuration of the hub."""
