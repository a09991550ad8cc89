"""The proxy of an execution: answers its connections, decides its requests, and scrubs the answers."""
