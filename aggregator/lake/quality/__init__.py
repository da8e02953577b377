"""Write, audit, publish: checks the records of a commit before anybody can read them."""
