"""The configuration: TOML files validated into frozen values, or every wrong key at once.

schema     what may be written: a field is a key, its docstring that key's documentation
places     where the files and directories are
files      reading a file that nobody else may change
trust      the record of which project files a person has reviewed
layers     TOML text with the line of every key, and one file laid over another
kinds      what a key takes, in words
rules      what the shape of a value can't say: mounts, keys that bound each other
faults     wrong keys and values in words
load       all of it in order
reference  docs/config.md
"""

from gloveport.config.load import Loaded, load
from gloveport.config.places import audit_directory, state_directory
from gloveport.config.schema import Admission, Audit, Config, Runtimes, Sandboxing, leaves
from gloveport.config.trust import Trusted, trust

__all__ = [
    "Admission",
    "Audit",
    "Config",
    "Loaded",
    "Runtimes",
    "Sandboxing",
    "Trusted",
    "audit_directory",
    "leaves",
    "load",
    "state_directory",
    "trust",
]
