"""The way out over HTTP and granted TCP: answers on an execution's doors, and reaches what its grant allows."""
