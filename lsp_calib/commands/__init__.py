"""The bodies of the commands of `lsp-calib`: everything but parsing of options, and the server."""
