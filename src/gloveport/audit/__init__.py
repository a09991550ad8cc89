"""The audit log: what was done, by whom, allowed by which rule; written before it happens, and chained by hashes.

record  one line: its bytes and its hash
files   the directory, the head file, the lock
log     the only writer
retention  removes the oldest files of a log that is too large
read    records, queries, the end of the log as it grows
verify  every line that was altered, removed, moved, inserted or cut
"""
