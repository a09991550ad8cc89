"""What programs may ask a language model: by way of the client, or of a provider that the operator has configured."""
