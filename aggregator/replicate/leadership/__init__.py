"""Who may write: the lease, the driver's transactions at central, and how an undecided one is settled."""
