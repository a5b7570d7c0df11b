"""The parts of a report as one page of HTML: text, tables, head, and what every page has."""
