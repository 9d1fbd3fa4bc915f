"""The outcomes of suggestions: following them through edits, and the store of events and labels."""
