"""Owner of the artifact store."""
