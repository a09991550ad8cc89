"""Package environments: locks, indexes, and built trees. Mechanisms only: policy decides what may be built."""
