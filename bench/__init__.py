"""Measures Gloveport against named baselines, each pair of figures taken in turn in the same run."""
