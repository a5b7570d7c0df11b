"""What a word of a report means, and what to do about it: texts, and how they are found."""
