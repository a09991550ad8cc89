"""The proxy of an execution: answers its connections, decides requests, and scrubs what comes back."""
