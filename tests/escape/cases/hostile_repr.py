# expect: value "<Hostile object: repr raised SystemExit>"
# proves: E2, E4
# tries: return a value whose repr prints, forks, exits, and whose attributes lie
import os, sys
class Hostile(dict):
    def __repr__(self): sys.exit(0)
    def __getattribute__(self, name): raise BaseException("no")
    def __iter__(self): return self
    def __next__(self): return 1
    def __len__(self): return 1 << 62
Hostile()
