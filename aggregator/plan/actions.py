"""What a run would do with a thing, in the words of `plan -o json`."""

CREATE, REGISTER, NOTHING = "create", "register", "none"
WIDEN_TOPIC, WIDEN_TABLE = "add partitions", "add columns"
REFUSED, DEAD, UNKNOWN = "refused", "dead letters", "unknown"

# What stands in a run's way.
BAD = (REFUSED, DEAD, UNKNOWN)
# What needs no run.
IDLE = (NOTHING, *BAD)
