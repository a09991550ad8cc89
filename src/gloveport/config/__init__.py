"""The configuration: TOML files validated into frozen values, or every wrong key at once.

schema     what may be written: a field is a key, its docstring that key's documentation
places     where the files and directories are
sources    which files count
files      reading a file that nobody else may change
trust      the record of which project files a person has reviewed
layers     TOML text with the line of every key, and one file laid over another
apifiles   the directory of APIs in files of their own
codeforge  what CodeForge's files say, in our terms
shapes     types of keys, taken apart
kinds      what a key takes, in words
wording    keys and values in words
misplaced  what to do where a secret, or its place, is written wrong
faults     wrong keys and values in words
mounts     which paths of the host may be shown in a sandbox, and where
rules      what the shape of a value can't say: mounts, keys that bound each other
root       which directory can be a workspace
toolchains which compilers and interpreters of the owner commands are shown
parts      keys of one table, each by itself
order      rules of an API that never decide
apis       the same as rules, for APIs
servers    the same as rules, for other MCP servers and sampling
toolrules  rules for a server's tools that never decide
clients    other clients' files, and their servers in our terms
edit       a configuration file anew, with what a person has written in it kept
load       all of it in order
reload     all of it again, while the old one is in use
watch      when to do that
reference  docs/config.md, with the words of chapters
"""

from gloveport.config.load import Loaded, load
from gloveport.config.owners_program import find_package, find_program
from gloveport.config.places import audit_directory, state_directory
from gloveport.config.reload import Reloaded, reload
from gloveport.config.root import refuse_as_workspace
from gloveport.config.schema import AdmissionSettings, Audit, Config, Runtimes, Sandboxing, leaves
from gloveport.config.toolchains import find_toolchains
from gloveport.config.trust import Trusted, trust
from gloveport.config.watch import changes

__all__ = [
    "AdmissionSettings",
    "Audit",
    "Config",
    "Loaded",
    "Reloaded",
    "Runtimes",
    "Sandboxing",
    "Trusted",
    "audit_directory",
    "changes",
    "find_package",
    "find_program",
    "find_toolchains",
    "leaves",
    "load",
    "refuse_as_workspace",
    "reload",
    "state_directory",
    "trust",
]
