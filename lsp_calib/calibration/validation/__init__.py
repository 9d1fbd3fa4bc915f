"""Generalising beyond the labels at hand: cross-validation, intervals, significance."""
