"""The words of `plan -o json` for what a run would do with a topic, a schema or a table."""

CREATE, REGISTER, NOTHING = "create", "register", "none"
WIDEN_TOPIC, WIDEN_TABLE = "add partitions", "add columns"
REFUSED, DEAD, UNKNOWN = "refused", "dead letters", "unknown"

# Actions that stop a run from going on with a flow, a schema or a table.
BAD = (REFUSED, DEAD, UNKNOWN)
# Actions for which a run has nothing to do.
IDLE = (NOTHING, *BAD)
