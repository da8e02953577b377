"""Write, audit, publish: what a commit's records must pass before anybody can read them."""
