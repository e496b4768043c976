"""Adding up."""

from decimal import Decimal


def by_project(entries):
    """Hours per project, in order of their names."""
    totals = {}
    for entry in entries:
        totals[entry.project] = totals.get(entry.project, Decimal(0)) + entry.hours
    return dict(sorted(totals.items()))
