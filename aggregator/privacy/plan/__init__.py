"""From a writer schema and a policy to a plan: what happens to every part of a value, and the central schema."""
