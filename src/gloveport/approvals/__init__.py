"""Approvals: questions to the owner, the answers, and how long they hold. Without an answer the action is denied."""
