"""From a configuration to an engine and a workspace on this host: everything is wired here, once."""
