"""Identity establishes which cluster a name stands for, and which clusters a record has passed."""
