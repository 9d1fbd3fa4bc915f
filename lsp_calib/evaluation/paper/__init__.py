"""The studies that this project implements, repeated on records: their tables and figures beside ours.

published: the studies' numbers. answers: records as the answers to one question. numbers: fits and intervals
of many rows at once. cells: all rows of one question. studies: which questions a study asks. claims: which
of its claims hold here. page: what is written.
"""
