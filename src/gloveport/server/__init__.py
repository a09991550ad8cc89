"""The MCP server: translates calls of clients to the engine and the workspace, and results to answers.

protocol    what is offered, under which name
tools       one thin function for each tool, with what it needs of the protocol
transports  stdio and HTTP, with their limits
rendering   results, errors and lists as text and as fields
process     signals and a watchdog of the whole process
"""
