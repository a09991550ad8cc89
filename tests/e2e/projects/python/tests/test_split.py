import unittest

from bill.split import shares


class Split(unittest.TestCase):
    def test_everybody_pays_the_same_where_it_comes_out_even(self):
        assert shares(900, 3) == [300, 300, 300]

    def test_no_cent_is_lost(self):
        assert shares(1000, 3) == [334, 333, 333]

    def test_one_alone_pays_all(self):
        assert shares(100, 1) == [100]
