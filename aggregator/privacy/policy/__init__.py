"""Privacy policies: the policy file, its rules and their strength, and the effect of a change."""
