"""Edits that repeat: what a change did to a few tokens, and where the same can be done. Pure."""
