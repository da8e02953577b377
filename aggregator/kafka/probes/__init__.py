"""What a cluster's listeners answer to somebody who looks for a fault."""
