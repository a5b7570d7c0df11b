"""One process for each name of a map: its placement, its environment, and how it ends."""
