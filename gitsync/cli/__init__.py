"""Owner room; see the package docstring of gitsync."""
