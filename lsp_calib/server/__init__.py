"""The language server: one small file per feature, each unpacks, calls a service and wraps the answer."""
