"""Control groups, and what must be bounded beside them: processor time, kernel memory, locks, epoll watches."""
