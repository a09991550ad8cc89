"""Threads for skills: whoever saves, lists or searches many leaves threads to all other work, and to those who run one.

A save waits for the others, and for the disk; among thousands of skills it looks at each.
"""

from typing import Final

from gloveport.fairness import OwnThreads

SKILL_READS: Final = OwnThreads("reads of skills", 8)
SKILL_SEARCHES: Final = OwnThreads("searches among skills", 2)
SKILL_WRITES: Final = OwnThreads("writes of skills", 2)
