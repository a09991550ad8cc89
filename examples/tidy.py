"""Deletes a customer from the memory of an MCP server: nothing that a program may do by itself."""

tools.memory.delete_entities(entityNames=["Customer 1"])
len(tools.memory.read_graph()["entities"])
