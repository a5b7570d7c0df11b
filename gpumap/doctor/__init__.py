"""Is each device used, and if not, why? What was read and measured, held against known causes."""
