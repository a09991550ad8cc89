"""What servers say of their tools, as typed declarations. All of it is hostile text."""
