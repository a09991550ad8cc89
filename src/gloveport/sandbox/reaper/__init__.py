"""The process that starts bubblewrap and kills what is left: run by path, standard library only."""
