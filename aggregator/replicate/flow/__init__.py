"""A flow is one edge partition on its way to central: its position, its gap, and the reason why it is held."""
