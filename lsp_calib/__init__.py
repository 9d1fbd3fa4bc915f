"""lsp-calib: completions and summaries from a local model, each with a probability that can be believed."""

__version__ = "0.1.0"
