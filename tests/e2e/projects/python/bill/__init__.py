"""Bills: who owes what, in whole cents."""
