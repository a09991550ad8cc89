"""The schema of a configuration file. A field is a key, and its docstring is that key's documentation.

The types check each value alone; ``checks`` has the rules about several values, or the host.
"""

from gloveport.config.schema.keys import KeyPath
from gloveport.config.schema.root_table import Config, leaves
from gloveport.config.schema.server_tables import AdmissionSettings, Audit, Clients, PoolSettings, Runtimes, Sandboxing
from gloveport.config.schema.workspace_tables import CommandLimits, ExecProgram, Hook, Workspace

__all__ = [
    "AdmissionSettings",
    "Audit",
    "Clients",
    "CommandLimits",
    "Config",
    "ExecProgram",
    "Hook",
    "KeyPath",
    "PoolSettings",
    "Runtimes",
    "Sandboxing",
    "Workspace",
    "leaves",
]
