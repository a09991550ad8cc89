"""The owner's credentials in requests: takes out what a program put in their place, and puts them in."""
