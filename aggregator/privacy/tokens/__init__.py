"""Makes tokens: keyed pseudonyms of identifiers, and the normal form of text that they are made from."""
