import unittest
from decimal import Decimal

from tally import entries, totals


class Tally(unittest.TestCase):
    def test_hours_are_added_per_project(self):
        lines = ["date,project,hours\n", "d,lamp,2.5\n", "d,desk,1\n", "d,lamp,0.5\n"]
        hours = totals.by_project(entries.read(lines, "x.csv"))
        self.assertEqual(hours, {"desk": Decimal("1"), "lamp": Decimal("3.0")})

    def test_a_bad_line_is_named(self):
        lines = ["date,project,hours\n", "d,lamp,many\n"]
        with self.assertRaises(entries.BadEntry) as caught:
            list(entries.read(lines, "x.csv"))
        self.assertEqual(str(caught.exception), "x.csv:2: date, project and hours are wanted")


if __name__ == "__main__":
    unittest.main()
