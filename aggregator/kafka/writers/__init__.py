"""Records, written: in transactions, as heartbeats, or where one may be lost."""
