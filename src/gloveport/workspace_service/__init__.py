"""What the tools of a workspace do, whatever the protocol: decide, ask, write down, and run commands in sandboxes.

service           one workspace, and what its tools share: who may do what there
command_requests  what a command that is asked for would do, and how it is begun and fed
write_actions     what a patch or changes would do, as the policy decides it
permissions       what a person has permitted, and for how long
approval_text     what that person is shown
hooks             commands of the operator's, run on what was written
sandboxes         where commands run; ``prefetch`` makes the next one ahead
readonly_workers  sandboxes of our own tools, which only read
"""
