"""The system call filter: which calls a program may make, and the compiler that makes BPF of it."""
