"""The studies that this project implements, repeated on records: their tables and figures beside ours.

published: the studies' numbers. numbers: fits, and intervals of many rows at once. cells: records as the
answers to one question, and all rows of it. spiess, virk: which questions a study asks. claims: which of its
claims hold here. page: the report.
"""
