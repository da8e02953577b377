"""Leadership decides which driver may write, and settles transactions that were left undecided at central."""
