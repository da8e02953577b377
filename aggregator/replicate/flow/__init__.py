"""One edge partition on its way to central: its position, its gap, why it is held."""
