"""Measures Gloveport against named baselines, in turn, in the same run."""
