"""The shop."""
import os


class Shop:
    """Sells things."""

    limit = 3

    def sell(self, thing,
             price):
        if price > self.limit:
            raise ValueError(thing)
        return thing


def open_shop():
    if os.name == "posix":
        return Shop()
