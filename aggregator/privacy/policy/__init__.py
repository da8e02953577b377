"""What happens to data, as people write it: the policy file, its rules and their strength, what a change changes."""
