"""One execution, from request to result, and those that outlive their requests."""
