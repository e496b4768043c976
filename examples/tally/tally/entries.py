"""Reading work entries."""

import csv
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation


class BadEntry(Exception):
    """A line that is no entry."""


@dataclass(frozen=True)
class Entry:
    date: str
    project: str
    hours: Decimal


def read(lines, name):
    """The entries in `lines`; `name` is what errors call the file."""
    for number, row in enumerate(csv.DictReader(lines), start=2):
        try:
            yield Entry(row["date"], row["project"], Decimal(row["hours"]))
        except (KeyError, TypeError, InvalidOperation):
            raise BadEntry(f"{name}:{number}: date, project and hours are wanted") from None
