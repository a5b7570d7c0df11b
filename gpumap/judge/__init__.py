"""What the figures mean: pure functions of what was measured."""
