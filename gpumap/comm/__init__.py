"""Ranks that exchange: how they were started, what carries between them, who watches them."""
