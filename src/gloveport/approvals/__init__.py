"""Questions to a person, and what they have said. A question that nobody answers is denied."""
