"""The configuration: reads and validates TOML files into frozen values, or names every wrong key at once.

schema         the keys that a file may have: a field is a key, its docstring that key's documentation
toml_text      keys and values as TOML has them, safe to show
sources        which files count, where they are, who may have written them, and the line of every key
validation     values against their types, in words: what was expected, what was found, what to do
preset_tables  tables for services that many use, under names
api_files      APIs in files of their own, ours and CodeForge's
checks         rules beyond the type of one value: keys that limit each other, places, credentials, mounts
reference      docs/config.md
host_paths     which directory can be a workspace, and which toolchains and programs its commands are shown
loading        loads a configuration, reloads it while the old one is in use, and edits a file
"""

from gloveport.config.host_paths.outside_workspaces import environ_outside, leads_through, path_outside
from gloveport.config.host_paths.owner_programs import find_package, find_program
from gloveport.config.host_paths.toolchains import find_toolchains
from gloveport.config.host_paths.workspace_root import refuse_as_workspace
from gloveport.config.loading.load import Loaded, load
from gloveport.config.schema import AdmissionSettings, Audit, Config, Runtimes, Sandboxing, leaves
from gloveport.config.sources.directories import audit_directory, skills_directory
from gloveport.config.sources.trust import Trusted, trust
from gloveport.user_directories import state_directory

__all__ = [
    "AdmissionSettings",
    "Audit",
    "Config",
    "Loaded",
    "Runtimes",
    "Sandboxing",
    "Trusted",
    "audit_directory",
    "environ_outside",
    "find_package",
    "find_program",
    "find_toolchains",
    "leads_through",
    "leaves",
    "load",
    "path_outside",
    "refuse_as_workspace",
    "skills_directory",
    "state_directory",
    "trust",
]
