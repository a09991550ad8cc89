"""Implements the tools of a workspace, whatever the protocol: decides, asks, records, and runs commands in sandboxes.

service           one workspace, what its tools share, and the guards of its actions
command_requests  turns a request for a command into an action, starts the command, and feeds it
write_actions     describes to the policy what a patch or changes would do
permissions       asks a person for permissions, and keeps them for as long as they hold
approval_text     what an approver is shown
hooks             the operator's commands that run on written files
sandboxes         where commands run; ``prefetch`` makes the next one ahead
readonly_workers  sandboxes for our own tools, which only read
"""
