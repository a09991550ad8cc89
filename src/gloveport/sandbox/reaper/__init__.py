"""The process that starts bubblewrap and kills leftover processes: run by path, standard library only."""
