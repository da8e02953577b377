"""How flows are shared among slots, for how long, and from which positions."""
