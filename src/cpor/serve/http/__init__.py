"""The web side of the service: application, limits, security, forms and files."""
