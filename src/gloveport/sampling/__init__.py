"""Questions of programs to a language model: through the client, or through a provider of the operator's."""
