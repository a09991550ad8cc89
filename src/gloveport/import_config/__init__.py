"""Imports MCP servers from other clients' files, as tables of our configuration.

client_files      where each client keeps its servers
file_reader       a file, and the entries in it
variables         texts with ``${...}`` in them
secrets           which values are certainly harmless, and which may be secrets
loader_variables  variables that choose which code runs
review            a command line for a person to review
drafts            one entry as a table of ours, while it is being made
local             entries that name a command
remote            entries that name an address
entries           one entry, all of it
import_plan       what would change here
apply             the configuration file that an import changes

The files may come from anybody: one entry never affects another, and no text of theirs is shown unescaped.
"""
