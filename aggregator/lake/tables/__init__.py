"""Table formats behind one port."""
