"""Very many runs, good and bad, after which nothing may be left that was not there before."""
