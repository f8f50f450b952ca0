"""What lies in a heap: the catalogue of objects, their shapes and surfaces."""
