"""Git tools of the workspace: state, differences, history and who wrote which line.

A checkout is hostile: ``.git/config`` and ``.gitattributes`` name programs for git to start. Three walls stand in their
way. ``invocation.py`` switches off by name the programs that git would start. It also prevents git from starting any
program, whatever key or attribute names it, future ones included. And git runs in a sandbox that reads the workspace,
writes nothing on the host and has no network.
"""
