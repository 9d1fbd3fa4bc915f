"""From a function to a one-line summary with its confidence."""
