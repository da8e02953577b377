"""The hub's HTTP servers: access control, bounds for connections and requests, and the server itself."""
