"""An OpenAI-compatible server somewhere else."""
