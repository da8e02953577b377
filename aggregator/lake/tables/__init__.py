"""The table formats of the lake, behind one port."""
