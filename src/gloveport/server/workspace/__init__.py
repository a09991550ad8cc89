"""The tools of a workspace, as clients of coding-tools-mcp know them.

opening      a workspace on this host, as configured
tools        one thin function for each tool of files, git and pictures
shell        those of commands
permissions  what a person has permitted, and how they are asked
replies      values and errors of a tool as the answer to a call
texts        the same in words
"""
