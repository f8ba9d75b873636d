"""The dashboard: pages made on the server, live through events, complete without script."""
