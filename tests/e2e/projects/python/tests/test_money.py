import unittest

from bill.money import parse, written


class Money(unittest.TestCase):
    def test_amounts_are_read(self):
        assert [parse(text) for text in ("12.5", "12", "-0.05")] == [1250, 1200, -5]

    def test_amounts_are_written(self):
        assert [written(cents) for cents in (1250, 0, -5)] == ["12.50", "0.00", "-0.05"]
