"""Lines that the user has committed, as places to complete.

A checkout is not trusted: its configuration names commands that git runs. So git is only asked for objects by
their ids, in an empty repository of our own that knows nothing but the folder of objects (`objects`); where
that folder is, and which commit the checkout is at, is read from files by `repository`.
"""
