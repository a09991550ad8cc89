"""The owner's credentials for servers that are reached by URL: fixed ones, tokens, and the login that gets them."""
