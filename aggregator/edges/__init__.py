"""This package concludes from observations how an edge is: heartbeats, availability, movement and history."""
