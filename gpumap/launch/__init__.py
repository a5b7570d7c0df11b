"""One process for each name of a map: where it runs, what it is told, and how it ends."""
