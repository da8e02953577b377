"""HTTP servers of the hub: who may connect, how often, for how long, and who is answered."""
