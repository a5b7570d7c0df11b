"""Choose few of a test's combinations of parameters, in which all values meet.

Of two parameters each value occurs; of three or more each pair of values does (Cohen et al., "The
AETG system", IEEE Trans. Software Eng. 23, 1997, measure what pairs find). What is skipped covers
nothing, and its reason is given once.
"""

from collections import defaultdict
from itertools import combinations

MANY = 60  # combinations of one test that are all run


def chosen(items):
    """Return the items to run: those of a test with many combinations are thinned out."""
    tests = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    return [item for every in tests.values() for item in _covering(every)]


def _covering(items):
    """Return items that hold, together, every value or pair that the items of a test hold."""
    if len(items) <= MANY:
        return items
    able = [item for item in items if item.get_closest_marker("skip") is None]
    if not able:
        return items[:1]
    columns = zip(*(item.callspec.params.values() for item in able), strict=True)
    dimensions = list(dict.fromkeys(map(_places, columns)))  # names of one list vary as one
    rows = [tuple(enumerate(row)) for row in zip(*dimensions, strict=True)]
    size = 1 if len(dimensions) == 2 else 2
    held = [set(combinations(row, size)) for row in rows]
    skipped = [item for item in items if item not in able][:1]
    return [*skipped, *([able[place] for place in cover(held)] if len(dimensions) > 1 else able)]


def _places(column):
    first = {}
    return tuple(first.setdefault(id(value), place) for place, value in enumerate(column))


def cover(held):
    """Return places of sets that cover the union of all, the largest gain first."""
    missing = set().union(*held)
    places = []
    while missing:
        best = max(range(len(held)), key=lambda place: len(held[place] & missing))
        places.append(best)
        missing -= held[best]
    return places
