"""From a cursor in a document to a line completion with its confidence."""
